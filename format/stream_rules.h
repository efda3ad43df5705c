// The rules between the records of one stream (specification §1.2): order, cardinality, and what a terminal
// may say.
//
// `LineReader` checks each line by itself; this visitor is shown the records and finds what is wrong between
// them.
//
//   StreamRules rules;
//   ReadReport report = reader.read_all(rules);
//   Status status = rules.finish();       // the stream's first violation, in the specification's order
//   for (const Error& error : rules.errors()) …
//
// A reader that is as strict as the specification refuses a stream with a bad line, whatever this visitor
// says. Each error's `name` is stable: missing_meta, meta_not_first, duplicate_meta, missing_terminal,
// record_after_terminal, duplicate_span_id, span_end_without_start, duplicate_span_end, invalid_tensor_stats,
// unsupported_schema, trace9_tensor_stats, complete_with_failure_reason, failed_without_reason,
// terminal_precedes_evidence. Memory: a row per span of the stream, in pages. Thread rules: one thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/event.h"
#include "format/result.h"
#include "format/span_table.h"

namespace tensortap::format {

class StreamRules final : public EventVisitor {
 public:
  // The first violation of the stream as if it ended here. Violations within the stream come first, in stream
  // order (rules 1, 3-6, 8); then missing meta, missing terminal, schema, trace/9 content, and rules 10
  // and 11.
  Status finish();

  // All violations found, in the order of the last `finish`; the first 100 are kept.
  const std::vector<Error>& errors() const { return all_.kept; }
  std::uint64_t error_count() const { return all_.count; }

  // The same by name, in the order of their first.
  struct Total {
    std::string_view name;
    std::uint64_t count = 0;
    std::optional<Place> first;
  };
  const std::vector<Total>& totals() const { return all_.totals; }

  // The latest host time of the stream so far: a terminal must not be earlier (rule 11).
  std::uint64_t latest_ns() const { return latest_ns_; }

  // For a visitor that goes on with the record: what the functions below do, and whether the record counts
  // (one that the rules refuse does not). `span` is the row of the span, a new one for a record of any kind
  // that names it first.
  bool admit_meta(const Meta&, const Place&);
  bool admit(const SpanStart&, const Place&, std::uint32_t& span);
  bool admit(const SpanEnd&, const Place&, std::uint32_t& span);
  bool admit(const Op&, const Place&);
  bool admit(const TensorStats&, const Place&);
  bool admit(const Memory&, const Place&);
  bool admit(const DeviceMemory&, const Place&);
  bool admit(const Terminal&, const Place&);
  // Tensors, device intervals, gradients, edges.
  bool admit(const Place& place) { return take(place, false); }
  SpanTable& spans() { return spans_; }

  void on_meta(const Meta&, const Place&) override;
  void on_span_start(const SpanStart&, const Place&) override;
  void on_span_end(const SpanEnd&, const Place&) override;
  void on_op(const Op&, const Place&) override;
  void on_tensor(const Tensor&, const Place&) override;
  void on_tensor_stats(const TensorStats&, const Place&) override;
  void on_memory(const Memory&, const Place&) override;
  void on_device_memory(const DeviceMemory&, const Place&) override;
  void on_device_interval(const DeviceInterval&, const Place&) override;
  void on_gradient(const Gradient&, const Place&) override;
  void on_edge(const Edge&, const Place&) override;
  void on_terminal(const Terminal&, const Place&) override;

 private:
  struct End {
    Place place;
    std::uint64_t timestamp_ns = 0;
    Outcome outcome = Outcome::kComplete;
    bool has_reason = false, reason_is_blank = true;
  };

  struct Errors {
    std::vector<Error> kept;
    std::vector<Total> totals;
    std::uint64_t count = 0;
    void add(std::string_view name, ErrorCode code, std::string message, const Place* place);
  };

  // Rules 1 and 3, for every record. False: the record does not count.
  bool take(const Place& place, bool is_meta) {
    return !terminal_ && !is_meta && place.index != 0 ? true : take_odd(place, is_meta);
  }
  bool take_odd(const Place& place, bool is_meta);
  void saw_time(std::uint64_t ns) { latest_ns_ = ns > latest_ns_ ? ns : latest_ns_; }
  // Always false.
  bool refuse(std::string_view name, std::string message, const Place& place) {
    within_.add(name, ErrorCode::kRejected, std::move(message), &place);
    return false;
  }
  void check_schema();
  void check_terminal();

  SpanTable spans_;
  std::uint64_t latest_ns_ = 0;
  std::string schema_;
  Place meta_place_;
  bool has_meta_ = false;
  std::optional<End> terminal_;
  std::optional<Place> first_tensor_stats_;
  Errors within_;  // of records
  Errors all_;     // with those of the stream as a whole, as of the last `finish`
};

}  // namespace tensortap::format
