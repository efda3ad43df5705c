#include "format/health/trace_health.h"

#include <string>
#include <utility>

#include "format/health/edges.h"
#include "format/health/evidence.h"
#include "format/health/gradients.h"
#include "format/health/issue_list.h"
#include "format/health/meta_checks.h"
#include "format/health/storage.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

// Records with something wrong in themselves, in stream order.
class OddRecords {
 public:
  void add(const Place& place) { places_.push_back(place); }
  void report(IssueList& issues, std::string_view code, const char* message) const {
    places_.for_each(
        [&](const Place& place) { issues.error(code, place, [&] { return std::string(message); }); });
  }

 private:
  PagedArray<Place> places_{std::size_t{1} << 20};
};

struct Ending {
  Outcome outcome = Outcome::kComplete;
  std::uint64_t timestamp_ns = 0;
  std::optional<std::string> reason;
  Place place;
};

}  // namespace

struct TraceHealth::Impl {
  explicit Impl(HealthOptions given) : options(given) {}

  HealthOptions options;
  StreamRules rules;
  SpanTable& spans = rules.spans();
  SpanEvidence evidence{spans};
  EdgeChecks edges{spans};
  StorageChecks storages{options.any_memory_order};
  GradientChecks gradients;
  LabelCounts labels;
  OddRecords empty_intervals, empty_samples;
  HealthCoverage coverage;
  std::optional<Meta> meta;
  Place meta_place;
  std::optional<Ending> ending;

  void report_ending(IssueList& issues) const;
  void report_counts(IssueList& issues) const;
  void report_absent(IssueList& issues, const Meta* declared) const;
};

TraceHealth::TraceHealth(HealthOptions options) : impl_(std::make_unique<Impl>(options)) {}
TraceHealth::~TraceHealth() = default;
TraceHealth::TraceHealth(TraceHealth&&) noexcept = default;
TraceHealth& TraceHealth::operator=(TraceHealth&&) noexcept = default;

Status TraceHealth::stream_status() { return impl_->rules.finish(); }
const StreamRules& TraceHealth::rules() const { return impl_->rules; }
std::uint64_t TraceHealth::late_memory_records() const { return impl_->storages.late(); }

// ---- Records

void TraceHealth::on_meta(const Meta& meta, const Place& place) {
  if (!impl_->rules.admit_meta(meta, place)) return;
  impl_->meta = meta;
  impl_->meta_place = place;
  impl_->labels = LabelCounts(meta.capture_contract);
}

void TraceHealth::on_span_start(const SpanStart& start, const Place& place) {
  Impl& t = *impl_;
  std::uint32_t span = SpanTable::kNone;
  if (!t.rules.admit(start, place, span)) return;
  t.evidence.started(span);
  t.labels.saw(start.name);
  ++t.coverage.spans;
  if (!start.parent_id) ++t.coverage.root_spans;
  if (start.measured) ++t.coverage.measured_spans;
  if (start.step == Step::kForward) ++t.coverage.forward_spans;
  if (start.step == Step::kBackward) ++t.coverage.backward_spans;
  if (start.step == Step::kOptimizer) ++t.coverage.optimizer_spans;
}

void TraceHealth::on_span_end(const SpanEnd& end, const Place& place) {
  std::uint32_t span = SpanTable::kNone;
  if (!impl_->rules.admit(end, place, span)) return;
  impl_->evidence.ended(span);
  ++impl_->coverage.closed_spans;
}

void TraceHealth::on_op(const Op& op, const Place& place) {
  Impl& t = *impl_;
  if (!t.rules.admit(op, place)) return;
  ++t.coverage.operations;
  t.evidence.charge(SpanEvidence::Kind::kOp, t.spans.number(op.span_id), op.timestamp_ns,
                    saturating_sum(op.timestamp_ns, op.duration_ns), place);
  for (const std::string_view input : op.inputs) t.edges.saw_tensor(input);
  if (op.output) t.edges.saw_tensor(*op.output);
}

void TraceHealth::on_tensor(const Tensor& tensor, const Place& place) {
  Impl& t = *impl_;
  if (!t.rules.admit(place)) return;
  ++t.coverage.tensors;
  t.evidence.charge(SpanEvidence::Kind::kTensor, t.spans.number(tensor.span_id), 0, 0, place);
  t.edges.saw_tensor(tensor.tensor_id);
}

void TraceHealth::on_tensor_stats(const TensorStats& stats, const Place& place) {
  Impl& t = *impl_;
  if (!t.rules.admit(stats, place)) return;
  t.evidence.charge(SpanEvidence::Kind::kTensorStats, t.spans.number(stats.span_id), 0, 0, place);
}

void TraceHealth::on_memory(const Memory& memory, const Place& place) {
  Impl& t = *impl_;
  if (!t.rules.admit(memory, place)) return;
  ++t.coverage.memory_events;
  t.evidence.charge(SpanEvidence::Kind::kMemory, t.spans.number(memory.span_id), memory.timestamp_ns,
                    memory.timestamp_ns, place);
  t.storages.add(memory, t.edges.mention(memory.tensor_id), place);
}

void TraceHealth::on_device_memory(const DeviceMemory& sample, const Place& place) {
  Impl& t = *impl_;
  if (!t.rules.admit(sample, place)) return;
  ++t.coverage.device_memory_samples;
  if (!sample.used_bytes && !sample.free_bytes && !sample.reserved_bytes && !sample.capacity_bytes) {
    t.empty_samples.add(place);
  }
}

void TraceHealth::on_device_interval(const DeviceInterval& interval, const Place& place) {
  Impl& t = *impl_;
  if (!t.rules.admit(place)) return;
  ++t.coverage.device_intervals;
  t.evidence.charge(SpanEvidence::Kind::kDeviceInterval, t.spans.number(interval.span_id), 0, 0, place);
  if (interval.duration_ns == 0) t.empty_intervals.add(place);
}

void TraceHealth::on_gradient(const Gradient& gradient, const Place& place) {
  if (!impl_->rules.admit(place)) return;
  ++impl_->coverage.gradients;
  impl_->gradients.add(gradient, place);
}

void TraceHealth::on_edge(const Edge& edge, const Place& place) {
  if (!impl_->rules.admit(place)) return;
  const bool call = edge.edge_kind == Edge::Kind::kCall;
  ++(call ? impl_->coverage.call_edges : impl_->coverage.data_edges);
  impl_->edges.add(edge, place);
}

void TraceHealth::on_terminal(const Terminal& terminal, const Place& place) {
  if (!impl_->rules.admit(terminal, place)) return;
  Ending ending{terminal.outcome, terminal.timestamp_ns, std::nullopt, place};
  if (terminal.reason) ending.reason = std::string(*terminal.reason);
  impl_->ending = std::move(ending);
}

// ---- The report, in the order of §3.2

void TraceHealth::Impl::report_ending(IssueList& issues) const {
  if (!ending) return;
  const bool failed = ending->outcome == Outcome::kFailed;
  if (!failed && ending->reason) {
    issues.error("complete_with_failure_reason", ending->place,
                 [] { return "a complete outcome has no reason"; });
  }
  if (failed && (!ending->reason || is_blank(*ending->reason))) {
    issues.error("failed_without_reason", ending->place, [] { return "a failed outcome needs a reason"; });
  }
  if (ending->timestamp_ns < rules.latest_ns()) {
    issues.error("terminal_precedes_evidence", ending->place, [&] {
      return "the terminal's time is " + std::to_string(ending->timestamp_ns) +
             " ns, the latest host time of the stream " + std::to_string(rules.latest_ns()) + " ns";
    });
  }
  if (failed) issues.warning("capture_failed", ending->place, [&] { return ending->reason.value_or(""); });
}

void TraceHealth::Impl::report_counts(IssueList& issues) const {
  if (coverage.root_spans != 1) {
    issues.error("root_count", std::nullopt, [&] {
      return std::to_string(coverage.root_spans) + " spans have no parent; exactly one must";
    });
  }
  if (coverage.measured_spans != 1 && !issues.failed()) {
    issues.error("measurement_count", std::nullopt, [&] {
      return std::to_string(coverage.measured_spans) + " spans are measured; exactly one must be";
    });
  }
}

void TraceHealth::Impl::report_absent(IssueList& issues, const Meta* declared) const {
  const auto absent = [&](std::uint64_t count, std::string_view code, const char* what) {
    if (count == 0)
      issues.warning(code, std::nullopt, [&] { return "the trace has no " + std::string(what); });
  };
  absent(coverage.operations, "operations_absent", "op record");
  absent(coverage.tensors, "tensors_absent", "tensor record");
  absent(coverage.memory_events, "logical_memory_absent", "memory record");
  absent(coverage.device_memory_samples, "physical_memory_absent", "device_memory record");
  absent(coverage.device_intervals, "device_timing_absent", "device_interval record");
  if (declared == nullptr || declared->phase != Phase::kTrain) return;
  absent(coverage.gradients, "gradients_absent", "gradient record, and its phase is train");
  absent(coverage.forward_spans, "forward_absent", "span of step forward, and its phase is train");
  absent(coverage.backward_spans, "backward_absent", "span of step backward, and its phase is train");
  absent(coverage.optimizer_spans, "optimizer_absent", "span of step optimizer, and its phase is train");
}

Health TraceHealth::finish(const Meta* given) {
  Impl& t = *impl_;
  const Meta* meta = given != nullptr ? given : t.meta ? &*t.meta : nullptr;
  IssueList issues(t.options.most_issues_per_code, t.ending && t.ending->outcome == Outcome::kFailed);
  if (meta != nullptr) report_provenance(issues, *meta, t.meta_place);
  t.report_ending(issues);
  t.report_counts(issues);
  t.evidence.report_spans(issues);
  t.evidence.report_unknown(issues);
  t.empty_intervals.report(issues, "empty_device_interval", "the device interval has a duration of 0 ns");
  t.evidence.report_operations(issues);
  t.evidence.report_memory(issues);
  t.empty_samples.report(issues, "empty_device_memory_sample", "the sample of device memory has no value");
  t.edges.report(issues);
  t.storages.report(issues, t.edges.tensors());
  t.gradients.report(issues, meta != nullptr ? &meta->capture_contract : nullptr, t.meta_place);
  t.report_absent(issues, meta);
  if (meta != nullptr) report_labels(issues, meta->capture_contract, t.labels, t.meta_place);

  Health health = std::move(issues).take();
  health.structurally_valid = health.errors == 0;
  health.capture_complete = t.ending && t.ending->outcome == Outcome::kComplete;
  health.coverage = t.coverage;
  return health;
}

}  // namespace tensortap::format
