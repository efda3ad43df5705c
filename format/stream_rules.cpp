#include "format/stream_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "format/text.h"

namespace tensortap::format {
namespace {

constexpr std::size_t kMaxErrors = 100;

// Nothing when the product does not fit, even if a later dimension is 0 (§2.8).
std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& shape) {
  std::uint64_t elements = 1;
  for (std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(elements, dimension, &elements)) return std::nullopt;
  }
  return elements;
}

// What is wrong with the record's values (rule 8), or nullptr.
const char* fault_of(const TensorStats& stats) {
  if (is_blank(stats.label)) return "tensor_stats has a blank label";
  const std::optional<std::uint64_t> elements = product(stats.shape);
  if (!elements) return "tensor_stats has a shape whose product is beyond 64 bits";
  if (*elements != stats.elements) return "tensor_stats has elements other than the product of its shape";
  if (stats.non_finite > stats.elements) return "tensor_stats has more non-finite elements than elements";
  if (!std::isfinite(stats.rms) || stats.rms < 0) return "tensor_stats has an rms below 0";
  if (!std::isfinite(stats.abs_max) || stats.abs_max < 0) return "tensor_stats has an abs_max below 0";
  if (!std::isfinite(stats.mean)) return "tensor_stats has a mean that is not finite";
  return nullptr;
}

}  // namespace

void StreamRules::Errors::add(std::string_view name, ErrorCode code, std::string message,
                              const Place* place) {
  ++count;
  const auto same = [&](const Total& total) { return total.name == name; };
  const auto total = std::find_if(totals.begin(), totals.end(), same);
  if (total == totals.end()) {
    totals.push_back({name, 1, place != nullptr ? std::optional(*place) : std::nullopt});
  } else {
    ++total->count;
  }
  if (kept.size() >= kMaxErrors) return;
  Error error;
  error.code = code;
  error.name = name;
  error.message = std::move(message);
  if (place != nullptr) {
    error.line = place->line;
    error.byte_offset = place->byte_offset;
    error.has_offset = true;
  }
  kept.push_back(std::move(error));
}

// The records that are not what every stream is full of.
bool StreamRules::take_odd(const Place& place, bool is_meta) {
  if (terminal_) {
    return refuse("record_after_terminal",
                  "a record follows the terminal record of line " + std::to_string(terminal_->place.line),
                  place);
  }
  if (is_meta && place.index != 0) {
    if (has_meta_) {
      return refuse("duplicate_meta", "a second meta record; each run needs a stream of its own", place);
    }
    refuse("meta_not_first", "the meta record must be the first record of the stream", place);
  }
  if (!is_meta && place.index == 0)
    refuse("meta_not_first", "the first record of a stream must be meta", place);
  return true;
}

bool StreamRules::admit_meta(const Meta& meta, const Place& place) {
  if (!take(place, true)) return false;
  has_meta_ = true;
  schema_ = meta.schema;
  meta_place_ = place;
  return true;
}

bool StreamRules::admit(const SpanStart& start, const Place& place, std::uint32_t& span) {
  if (!take(place, false)) return false;
  span = spans_.number(start.id);
  if (spans_.row(span).declared()) {
    return refuse("duplicate_span_id", "span " + in_quotes(start.id) + " was started before", place);
  }
  spans_.declare(span, start, place);
  saw_time(start.start_ns);
  return true;
}

bool StreamRules::admit(const SpanEnd& end, const Place& place, std::uint32_t& span) {
  if (!take(place, false)) return false;
  span = spans_.find(end.id);
  if (span == SpanTable::kNone || !spans_.row(span).declared()) {
    return refuse("span_end_without_start", "span " + in_quotes(end.id) + " ends before it starts", place);
  }
  if (spans_.row(span).closed()) {
    return refuse("duplicate_span_end", "span " + in_quotes(end.id) + " ended before", place);
  }
  spans_.close(span, end.duration_ns);
  saw_time(spans_.row(span).end_ns());
  return true;
}

bool StreamRules::admit(const Op& op, const Place& place) {
  if (!take(place, false)) return false;
  saw_time(saturating_sum(op.timestamp_ns, op.duration_ns));
  return true;
}

bool StreamRules::admit(const TensorStats& stats, const Place& place) {
  if (!take(place, false)) return false;
  if (!first_tensor_stats_) first_tensor_stats_ = place;
  if (const char* fault = fault_of(stats)) refuse("invalid_tensor_stats", fault, place);
  return true;
}

bool StreamRules::admit(const Memory& memory, const Place& place) {
  if (!take(place, false)) return false;
  saw_time(memory.timestamp_ns);
  return true;
}

bool StreamRules::admit(const DeviceMemory& sample, const Place& place) {
  if (!take(place, false)) return false;
  saw_time(sample.timestamp_ns);
  return true;
}

bool StreamRules::admit(const Terminal& terminal, const Place& place) {
  if (!take(place, false)) return false;
  End end;
  end.place = place;
  end.timestamp_ns = terminal.timestamp_ns;
  end.outcome = terminal.outcome;
  end.has_reason = terminal.reason.has_value();
  end.reason_is_blank = !terminal.reason || is_blank(*terminal.reason);
  terminal_ = end;
  return true;
}

void StreamRules::on_meta(const Meta& meta, const Place& place) { admit_meta(meta, place); }
void StreamRules::on_span_start(const SpanStart& start, const Place& place) {
  std::uint32_t span = SpanTable::kNone;
  admit(start, place, span);
}
void StreamRules::on_span_end(const SpanEnd& end, const Place& place) {
  std::uint32_t span = SpanTable::kNone;
  admit(end, place, span);
}
void StreamRules::on_op(const Op& op, const Place& place) { admit(op, place); }
void StreamRules::on_tensor(const Tensor&, const Place& place) { admit(place); }
void StreamRules::on_tensor_stats(const TensorStats& stats, const Place& place) { admit(stats, place); }
void StreamRules::on_memory(const Memory& memory, const Place& place) { admit(memory, place); }
void StreamRules::on_device_memory(const DeviceMemory& sample, const Place& place) { admit(sample, place); }
void StreamRules::on_device_interval(const DeviceInterval&, const Place& place) { admit(place); }
void StreamRules::on_gradient(const Gradient&, const Place& place) { admit(place); }
void StreamRules::on_edge(const Edge&, const Place& place) { admit(place); }
void StreamRules::on_terminal(const Terminal& terminal, const Place& place) { admit(terminal, place); }

Status StreamRules::finish() {
  all_ = within_;
  if (!has_meta_) all_.add("missing_meta", ErrorCode::kRejected, "the stream has no meta record", nullptr);
  if (!terminal_) {
    all_.add("missing_terminal", ErrorCode::kTruncated,
             "the stream has no terminal record: its producer did not finish it", nullptr);
  }
  if (has_meta_) check_schema();
  if (terminal_) check_terminal();
  if (all_.kept.empty()) return {};
  return all_.kept.front();
}

void StreamRules::check_schema() {
  if (schema_ == "candle-graph/trace/9") {
    if (first_tensor_stats_)
      all_.add("trace9_tensor_stats", ErrorCode::kRejected,
               "a trace/9 stream may not hold tensor_stats records", &*first_tensor_stats_);
  } else if (schema_ != "candle-graph/trace/10") {
    all_.add("unsupported_schema", ErrorCode::kUnsupported,
             "schema " + in_quotes(schema_) +
                 " is not one that can be read: candle-graph/trace/10 or candle-graph/trace/9",
             &meta_place_);
  }
}

void StreamRules::check_terminal() {
  if (terminal_->outcome == Outcome::kComplete && terminal_->has_reason) {
    all_.add("complete_with_failure_reason", ErrorCode::kRejected, "a complete outcome has no reason",
             &terminal_->place);
  }
  if (terminal_->outcome == Outcome::kFailed && terminal_->reason_is_blank) {
    all_.add("failed_without_reason", ErrorCode::kRejected, "a failed outcome needs a reason",
             &terminal_->place);
  }
  if (terminal_->timestamp_ns < latest_ns_) {
    all_.add("terminal_precedes_evidence", ErrorCode::kRejected,
             "the terminal record's time, " + std::to_string(terminal_->timestamp_ns) +
                 " ns, is before the latest host time of the stream, " + std::to_string(latest_ns_) + " ns",
             &terminal_->place);
  }
}

}  // namespace tensortap::format
