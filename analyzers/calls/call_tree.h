// From records to calls: follows the spans of a stream and tells analyzers what they all need to know and
// none should work out for itself: what a call's self time is, whether an operator is top-level, whether an
// `op` record is a call of its own or the second half of an op span.
//
// An operator that calls operators is a span of kind op and an `op` record of the same name and start charged
// to that very span (proto/ext.md): one call. All other `op` records are calls of their own. Self time is a
// call's duration without the union of its direct children's intervals. Records may refer to spans that start
// later in the stream (they wait) or that ended earlier (ended spans are kept for a while: a few thousand of
// our own traces, whose order is known; many of others').
//
// Memory: open spans, ended spans within that limit, distinct names.
// Ownership: owns its spans; a `const Span&` is valid during the callback only. Thread rules: one thread at a
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzers/calls/ancestors.h"
#include "analyzers/calls/id_set.h"
#include "analyzers/calls/interval_union.h"
#include "analyzers/calls/name_table.h"
#include "analyzers/calls/time_axis.h"
#include "format/event.h"

namespace tensortap::analyzers {

inline std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a + b < a ? ~std::uint64_t{0} : a + b;
}

struct Span {
  std::string id;
  std::string parent_id;  // "" = none
  Slot slot = kNoSlot;
  Slot parent = kNoSlot;  // kNoSlot also while the parent has not started yet
  NameId name = kNoName;
  NameId type = kNoName;  // of a module: its class
  format::SpanKind kind = format::SpanKind::kFunction;
  std::optional<format::Step> step;
  bool has_parent_id = false;
  bool measured = false;
  bool iteration = false;  // a training or inference step
  bool autograd = false;   // a node of the backward pass
  bool closed = false;
  bool cut = false;  // closed by the end of the window or of its thread, not by its own end
  bool in_use = false;
  bool has_own_op = false;       // kind op: its `op` record was seen
  bool had_children = false;     // child spans
  std::uint32_t children = 0;    // of them, those that are still kept
  std::uint32_t direct_ops = 0;  // `op` records charged to it, its own not counted
  NameId only_op = kNoName;      // the first of them
  std::uint64_t only_op_ns = 0;
  std::uint64_t only_op_thread = 0;
  std::uint64_t order = 0;   // its span_start's record index
  std::uint64_t thread = 0;  // 0 = not known
  std::uint64_t step_number = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t duration_ns = 0;         // meaningful when closed
  std::uint64_t own_op_ns = 0;           // duration in its `op` record
  std::uint64_t latest_child_ns = 0;     // greatest end of a child span
  std::uint64_t latest_op_ns = 0;        // greatest end of an `op` record charged to it
  std::uint64_t latest_memory_ns = 0;    // greatest time of a memory record charged to it
  std::uint64_t step_ns[3] = {0, 0, 0};  // of an iteration: forward, backward, optimizer inside
  IntervalUnion covered;                 // by direct children

  std::uint64_t end_ns() const { return saturating_add(start_ns, duration_ns); }
  std::uint64_t self_ns() const {
    return duration_ns - std::min(duration_ns, covered.length_within(start_ns, end_ns()));
  }
};

// One finished call of an operator.
struct OperatorCall {
  NameId name = kNoName;
  std::uint64_t start_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t self_ns = 0;
  std::uint64_t thread = 0;                           // 0 = not known
  bool top_level = false;                             // no other operator's span encloses it
  bool recursive = false;                             // a call of the same operator encloses it
  const Span* span = nullptr;                         // the span it is charged to
  const std::vector<std::uint64_t>* shape = nullptr;  // of the first output
  std::string_view dtype, device;
  std::string_view ext;
};

class CallVisitor {
 public:
  virtual ~CallVisitor() = default;
  virtual void on_operator(const OperatorCall&) {}
  // After its span_end. `outermost_step`: it has a step (forward, …) and no span around it has one.
  virtual void on_span_closed(const Span&, bool /*outermost_step*/) {}
  // A call reported as nested in an op span turned out to be what that span stands for, and nothing encloses
  // the span. Only in traces of other producers, which wrap single operators in spans of kind op.
  virtual void on_became_top_level(NameId /*name*/, std::uint64_t /*thread*/, std::uint64_t /*duration_ns*/) {
  }
  // A child came after the span had been reported: the self time reported before shrinks by this much.
  virtual void on_late_child(const Span&, std::uint64_t /*self_shrinks_ns*/) {}
};

class CallTree {
 public:
  void set_visitors(std::vector<CallVisitor*> visitors) { visitors_ = std::move(visitors); }

  void on_meta(const format::Meta& meta);
  void on_span_start(const format::SpanStart& event, const format::Place& place);
  void on_span_end(const format::SpanEnd& event);
  void on_op(const format::Op& event);
  void on_memory(const format::Memory& event);

  const Span* find(std::string_view id) const;
  const Span* parent_of(const Span& span) const {
    return span.parent == kNoSlot ? nullptr : &spans_[span.parent];
  }
  bool known(std::string_view id) const { return seen_.contains(id); }
  const NameTable& names() const { return names_; }
  NameTable& names() { return names_; }
  const TimeAxis& time_axis() const { return axis_; }

  // Of the spans that never ended, outermost first.
  std::vector<const Span*> open_spans() const;

  struct Totals {
    std::uint64_t spans = 0, open = 0, roots = 0, measured = 0;
    std::uint64_t duplicate_ids = 0;       // span_start with an id that was there before: ignored
    std::uint64_t ends_without_start = 0;  // span_end without a span, or a second one: ignored
    std::uint64_t operators = 0;
    std::uint64_t waiting_operators = 0;       // charged to a span that has not started (yet)
    std::uint64_t unattributed_operators = 0;  // charged to a span that was let go, or too many were waiting
    std::uint64_t late_children = 0;           // intervals that came too late for an exact self time
  };
  const Totals& totals() const { return totals_; }

  // Nearest span at or above `span` that has the trait; nullptr: none, or no span was given.
  const Span* nearest(const Span* span, Ancestors::Trait trait) const;
  // Whether a span at or above `span` has this kind and name. Looked for among the nearest kMostNamesAsked of
  // the kind.
  bool is_inside(const Span* span, format::SpanKind kind, NameId name) const;

 private:
  // A call inside a call of the same name mostly follows it closely. Without a bound, nested spans that all
  // have other names would be asked again for every record: quadratic.
  static constexpr int kMostNamesAsked = 256;
  static constexpr std::size_t kOwnOrderKept = 4096;
  static constexpr std::size_t kAnyOrderKept = 262144;
  static constexpr std::size_t kMostWaiting = 65536;

  struct WaitingOp {
    std::string name, dtype, device, ext;
    std::vector<std::uint64_t> shape;
    std::uint64_t start_ns = 0, duration_ns = 0;
  };

  Slot slot_of(std::string_view id) const;
  Slot take_slot();
  bool link(Slot child, Slot parent);
  void resolve_waiting(Slot slot);
  void add_child(Slot slot, std::uint64_t begin, std::uint64_t end);
  void charge(Slot slot, const format::Op& event);
  void let_go_of_ended();
  void judge_wrapper(const Span& span);

  std::vector<CallVisitor*> visitors_;
  NameTable names_;
  std::deque<Span> spans_;       // by slot; a deque: references stay valid when it grows
  mutable Ancestors ancestors_;  // look-ups shorten its ways
  std::vector<Slot> free_slots_;
  std::deque<Slot> ended_;  // oldest first
  bool own_producer_ = false;
  std::size_t most_ended_ = kAnyOrderKept;
  std::unordered_map<std::string, Slot, TextHash, std::equal_to<>> by_id_;
  IdSet seen_;
  std::unordered_map<std::string, std::vector<Slot>, TextHash, std::equal_to<>> waiting_children_;
  std::unordered_map<std::string, std::vector<WaitingOp>, TextHash, std::equal_to<>> waiting_ops_;
  std::uint64_t waiting_children_count_ = 0;
  Totals totals_;
  TimeAxis axis_;
};

}  // namespace tensortap::analyzers
