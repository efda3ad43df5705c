#include "analyzers/candle/evidence.h"

#include <algorithm>
#include <utility>

#include "format/text.h"

namespace tensortap::analyzers::candle {
namespace {

// "1.25 ms": rounded half up to two decimals.
std::string milliseconds(std::uint64_t ns) {
  const std::uint64_t hundredths = ns / 10000 + (ns % 10000 >= 5000 ? 1 : 0);
  const std::string decimals = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (decimals.size() == 1 ? ".0" : ".") + decimals + " ms";
}

}  // namespace

Evidence::Evidence() = default;

void Evidence::on_meta(const format::Meta& meta, const format::Place& place) {
  checks_.on_meta(meta, place);
  meta_ = meta;
  for (const std::string& label : meta.capture_contract.required_semantic_labels) spans_by_label_[label] = 0;
}

void Evidence::on_span_start(const format::SpanStart& start, const format::Place& place) {
  checks_.on_span_start(start, place);
  spans_.on_span_start(start);
  if (spans_by_label_.empty()) return;
  const auto label = spans_by_label_.find(start.name);
  if (label != spans_by_label_.end()) ++label->second;
}

void Evidence::on_span_end(const format::SpanEnd& end, const format::Place& place) {
  checks_.on_span_end(end, place);
  spans_.on_span_end(end);
}

void Evidence::on_op(const format::Op& op, const format::Place& place) {
  checks_.on_op(op, place);
  ops_.on_op(op);
  tensors_.on_op(op);
}

void Evidence::on_tensor(const format::Tensor& tensor, const format::Place& place) {
  checks_.on_tensor(tensor, place);
  tensors_.on_tensor(tensor);
}

void Evidence::on_tensor_stats(const format::TensorStats& stats, const format::Place& place) {
  checks_.on_tensor_stats(stats, place);
  ++tensor_stats_;
  non_finite_tensor_stats_ += stats.non_finite != 0 ? 1 : 0;
}

void Evidence::on_memory(const format::Memory& memory, const format::Place& place) {
  checks_.on_memory(memory, place);
  logical_.on_memory(memory, place);
}

void Evidence::on_device_memory(const format::DeviceMemory& sample, const format::Place& place) {
  checks_.on_device_memory(sample, place);
  physical_.on_device_memory(sample, place);
}

void Evidence::on_device_interval(const format::DeviceInterval& interval, const format::Place& place) {
  checks_.on_device_interval(interval, place);
  timing_.on_device_interval(interval, place);
}

void Evidence::on_gradient(const format::Gradient& gradient, const format::Place& place) {
  checks_.on_gradient(gradient, place);
  gradients_not_present_ += gradient.state != format::GradientState::kPresent ? 1 : 0;
}

void Evidence::on_edge(const format::Edge& edge, const format::Place& place) { checks_.on_edge(edge, place); }

void Evidence::on_terminal(const format::Terminal& terminal, const format::Place& place) {
  checks_.on_terminal(terminal, place);
}

format::Status Evidence::finish() {
  if (format::Status status = checks_.stream_status(); !status) return status;
  health_ = checks_.finish();
  checks_ = format::TraceHealth();  // its pages are not needed any more
  spans_.finish();
  logical_.finish();
  timing_.finish();
  scope_.emplace(spans_);
  const ActivationInputs in{tables_, spans_, ops_, *scope_, tensors_, logical_, timing_};
  const bool logical_is_complete = meta_.capture_contract.logical_memory == format::Coverage::kComplete;
  activations_.emplace(in, logical_is_complete);
  if (valid_and_complete()) {
    if (const auto id = repeated_node_id(in)) {
      return format::Error{format::ErrorCode::kInvalidArgument,
                           "two nodes of the graph would have the id " + format::in_quotes(*id) +
                               ": rename that span or tensor; ids like <span>/op/<n> and tensor/<id> belong "
                               "to the nodes of operations and tensors"};
    }
    graph_ = summarize_graph(in, meta_.capture_contract);
  }
  decide();
  find();
  collect_gaps();
  return {};
}

bool Evidence::labels_name_one_span_each() const {
  const auto& required = meta_.capture_contract.required_semantic_labels;
  return spans_by_label_.size() == required.size() &&
         std::all_of(spans_by_label_.begin(), spans_by_label_.end(),
                     [](const auto& label) { return label.second == 1; });
}

void Evidence::decide() {
  CapabilityInputs in;
  in.meta = &meta_;
  in.health = &health_;
  in.device_intervals = timing_.interval_count();
  in.closed_measured_spans = spans_.closed_measured();
  in.listed_activations = activations_->listed();
  in.labels_name_one_span_each = labels_name_one_span_each();
  capabilities_ = decide_capabilities(in);
  activation_states_ = activations_->states(capabilities_);
}

void Evidence::find() {
  if (graph_ && !graph_->slowest_host.empty()) {
    const HostSpan& span = graph_->slowest_host.front();
    findings_.push_back({"largest_observed_host_self_time",
                         "span " + format::in_quotes(tables_.labels.text(spans_[span.span].name)) + " has " +
                             milliseconds(span.overlap_self_ns) + " of host self time in the measured region",
                         tables_.spans.text(span.span),
                         {Capability::kNestedHostTime},
                         capabilities_[Capability::kNestedHostTime].level});
  }
  if (graph_ && !graph_->slowest_device.empty()) {
    const DeviceTiming::SpanRow& row = graph_->slowest_device.front();
    findings_.push_back({"largest_observed_device_busy_time",
                         "span " + format::in_quotes(tables_.labels.text(spans_[row.span].name)) +
                             " kept device " + format::in_quotes(tables_.names.text(row.device)) +
                             " busy for " + milliseconds(row.busy_ns),
                         tables_.spans.text(row.span),
                         {Capability::kNestedDeviceTime},
                         capabilities_[Capability::kNestedDeviceTime].level});
  }
  const auto longest = activations_->longest();
  if (!longest || !capabilities_[Capability::kActivations].available()) return;
  if (!activation_states_.host_time.available()) return;
  const OpRow row = ops_[longest->op];
  findings_.push_back({"largest_activation_host_time",
                       "activation operation " + format::in_quotes(tables_.names.text(row.name)) + " took " +
                           milliseconds(row.duration_ns) + " on the host",
                       activations_->id(*longest),
                       {Capability::kActivations, Capability::kNestedHostTime},
                       activation_states_.host_time.level});
}

void Evidence::collect_gaps() {
  for (const format::HealthIssue& issue : health_.issues) {
    if (issue.severity == format::Severity::kWarning) gaps_.push_back(issue.message);
  }
  for (const CapabilityState& state : capabilities_.states) {
    if (state.level != Level::kComplete) gaps_.push_back(state.reason);
  }
  std::sort(gaps_.begin(), gaps_.end());
  gaps_.erase(std::unique(gaps_.begin(), gaps_.end()), gaps_.end());
}

std::vector<Fact> Evidence::facts() const {
  using Kind = Fact::Kind;
  std::vector<Fact> out;
  if (capabilities_[Capability::kOuterWallTime].available()) {
    out.push_back({"outer_wall_time", "time of the measured span", "measured_span", Kind::kDuration,
                   spans_[spans_.first_measured()].duration_ns, Capability::kOuterWallTime});
  }
  const auto& contract = meta_.capture_contract.gradient_contract;
  if (contract && capabilities_[Capability::kGradients].available()) {
    constexpr const char* kSource = "capture_contract.gradient_contract";
    out.push_back({"gradient_manifest_sha256", "digest of the gradient manifest", kSource, Kind::kText,
                   contract->manifest_sha256, Capability::kGradients});
    out.push_back({"gradient_manifest_entries", "parameters of the gradient manifest", kSource, Kind::kCount,
                   std::uint64_t{contract->expected.size()}, Capability::kGradients});
    out.push_back({"gradient_family_expectations", "families of the gradient contract", kSource, Kind::kCount,
                   std::uint64_t{contract->families.size()}, Capability::kGradients});
  }
  if (graph_ && health_.coverage.gradients != 0) {
    out.push_back({"gradient_observations", "gradients that were not present", "trace.gradient", Kind::kCount,
                   gradients_not_present_, Capability::kGradients});
  }
  const auto& peak = logical_.totals().peak;
  if (peak && capabilities_[Capability::kLogicalMemory].available()) {
    out.push_back({"logical_peak_live_bytes", "greatest live bytes of storages", "logical_storage_lifetimes",
                   Kind::kBytes, peak->live_bytes, Capability::kLogicalMemory});
  }
  if (capabilities_[Capability::kActivations].available()) {
    out.push_back({"activation_operations", "operations with an activation as output",
                   "trace activation category links", Kind::kCount, activations_->listed(),
                   Capability::kActivations});
  }
  return out;
}

}  // namespace tensortap::analyzers::candle
