#include "analyzers/calls/call_tree.h"

#include "analyzers/calls/ext_fields.h"
#include "format/step_name.h"

namespace tensortap::analyzers {
namespace {

Ancestors::Trait trait_of(format::SpanKind kind) {
  switch (kind) {
    case format::SpanKind::kFunction:
      return Ancestors::kFunction;
    case format::SpanKind::kOp:
      return Ancestors::kOp;
    case format::SpanKind::kModule:
      return Ancestors::kModule;
  }
  return Ancestors::kFunction;
}

std::uint8_t traits_of(const Span& span) {
  unsigned traits = Ancestors::bit(trait_of(span.kind));
  if (span.iteration) traits |= Ancestors::bit(Ancestors::kIteration);
  if (span.step) traits |= Ancestors::bit(Ancestors::kStep);
  return static_cast<std::uint8_t>(traits);
}

}  // namespace

void CallTree::on_meta(const format::Meta& meta) {
  // Our own producer ends spans after all that lies inside them; others may write in any order.
  const auto producer = ExtFields(meta.ext).text("producer");
  own_producer_ = producer && producer->starts_with("tensortap");
  if (own_producer_) most_ended_ = kOwnOrderKept;
}

Slot CallTree::slot_of(std::string_view id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? kNoSlot : found->second;
}

const Span* CallTree::find(std::string_view id) const {
  const Slot slot = slot_of(id);
  return slot == kNoSlot ? nullptr : &spans_[slot];
}

const Span* CallTree::nearest(const Span* span, Ancestors::Trait trait) const {
  const Slot found = span ? ancestors_.nearest(span->slot, trait) : kNoSlot;
  return found == kNoSlot ? nullptr : &spans_[found];
}

bool CallTree::is_inside(const Span* span, format::SpanKind kind, NameId name) const {
  const Ancestors::Trait trait = trait_of(kind);
  span = nearest(span, trait);
  for (int asked = 0; span && asked < kMostNamesAsked; ++asked) {
    if (span->name == name) return true;
    span = nearest(parent_of(*span), trait);
  }
  return false;
}

Slot CallTree::take_slot() {
  if (free_slots_.empty()) {
    spans_.emplace_back();
    return static_cast<Slot>(spans_.size() - 1);
  }
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void CallTree::on_span_start(const format::SpanStart& event, const format::Place& place) {
  if (!seen_.insert(event.id)) {
    ++totals_.duplicate_ids;
    return;
  }
  const Slot slot = take_slot();
  Span& span = spans_[slot];
  span = Span();
  span.in_use = true;
  span.slot = slot;
  span.id = event.id;
  span.order = place.index;
  span.name = names_.intern(event.name);
  span.kind = event.span_kind;
  span.step = event.step;
  span.measured = event.measured;
  span.start_ns = event.start_ns;
  const ExtFields ext(event.ext);
  span.thread = ext.integer("thread").value_or(0);
  if (event.span_kind == format::SpanKind::kModule) {
    if (const auto type = ext.text("type")) span.type = names_.intern(*type);
  } else if (event.span_kind == format::SpanKind::kFunction) {
    span.autograd =
        ext.raw("scope") == "\"backward_function\"" || event.name.starts_with("autograd::engine::");
    if (const auto number = format::step_number(event.name)) {  // also in traces of others that carry no ext
      span.iteration = true;
      span.step_number = *number;
    }
    if (const auto number = ext.integer("step_number")) {
      span.iteration = true;
      span.step_number = *number;
    }
  }
  axis_.span_time(event.start_ns);
  ++totals_.spans;
  ++totals_.open;
  if (event.measured) ++totals_.measured;
  by_id_.emplace(span.id, slot);
  ancestors_.add(slot, traits_of(span));

  if (!event.parent_id) {
    ++totals_.roots;
  } else {
    span.has_parent_id = true;
    span.parent_id = *event.parent_id;
    const Slot parent = slot_of(*event.parent_id);
    if (parent != kNoSlot) {
      link(slot, parent);
    } else if (!seen_.contains(*event.parent_id)) {
      waiting_children_[span.parent_id].push_back(slot);
      ++waiting_children_count_;
    }
  }
  if (waiting_children_count_ != 0 || totals_.waiting_operators != 0) resolve_waiting(slot);
}

// False: the parents of a bad trace would form a ring; the child stays without one.
bool CallTree::link(Slot child, Slot parent) {
  if (!ancestors_.set_parent(child, parent)) return false;
  spans_[child].parent = parent;
  spans_[parent].had_children = true;
  ++spans_[parent].children;
  return true;
}

// What was written before the span that it belongs to.
void CallTree::resolve_waiting(Slot slot) {
  const std::string id = spans_[slot].id;
  if (auto children = waiting_children_.extract(id)) {
    waiting_children_count_ -= children.mapped().size();
    for (const Slot child : children.mapped()) {
      const Span& waiting = spans_[child];
      if (!waiting.in_use || waiting.parent != kNoSlot || waiting.parent_id != id) continue;
      if (!link(child, slot) || !waiting.closed) continue;
      spans_[slot].latest_child_ns = std::max(spans_[slot].latest_child_ns, waiting.end_ns());
      add_child(slot, waiting.start_ns, waiting.end_ns());
    }
  }
  if (auto ops = waiting_ops_.extract(id)) {
    totals_.waiting_operators -= ops.mapped().size();
    for (const WaitingOp& waiting : ops.mapped()) {
      format::Op event;
      event.span_id = id;
      event.op_name = waiting.name;
      event.dtype = waiting.dtype;
      event.device = waiting.device;
      event.ext = waiting.ext;
      event.shape = waiting.shape;
      event.timestamp_ns = waiting.start_ns;
      event.duration_ns = waiting.duration_ns;
      charge(slot, event);
    }
  }
}

void CallTree::on_span_end(const format::SpanEnd& event) {
  const Slot slot = slot_of(event.id);
  if (slot == kNoSlot || spans_[slot].closed) {
    ++totals_.ends_without_start;
    return;
  }
  Span& span = spans_[slot];
  span.closed = true;
  span.cut = !ExtFields(event.ext).raw("cut").empty();
  span.duration_ns = event.duration_ns;
  axis_.span_time(span.end_ns());
  totals_.late_children += span.covered.late();
  --totals_.open;
  if (span.parent != kNoSlot) {
    Span& parent = spans_[span.parent];
    if (span.start_ns >= parent.start_ns)
      parent.latest_child_ns = std::max(parent.latest_child_ns, span.end_ns());
    add_child(span.parent, span.start_ns, span.end_ns());
  }
  bool outermost_step = false;
  if (span.step) {
    outermost_step = !nearest(parent_of(span), Ancestors::kStep);
    const Span* iteration = nearest(parent_of(span), Ancestors::kIteration);
    if (outermost_step && iteration) {
      std::uint64_t& sum = spans_[iteration->slot].step_ns[static_cast<std::size_t>(*span.step)];
      sum = saturating_add(sum, span.duration_ns);
    }
  }
  for (CallVisitor* visitor : visitors_) visitor->on_span_closed(span, outermost_step);
  judge_wrapper(span);
  ended_.push_back(slot);
  let_go_of_ended();
}

void CallTree::add_child(Slot slot, std::uint64_t begin, std::uint64_t end) {
  Span& span = spans_[slot];
  // Nothing counts outside its parent: a wrong timestamp stretches nothing and makes no self time negative.
  begin = std::max(begin, span.start_ns);
  if (span.closed) end = std::min(end, span.end_ns());
  const std::uint64_t grown = span.covered.add(begin, end);
  if (!span.closed || grown == 0) return;
  for (CallVisitor* visitor : visitors_) visitor->on_late_child(span, grown);
}

void CallTree::on_op(const format::Op& event) {
  ++totals_.operators;
  if (const Slot slot = slot_of(event.span_id); slot != kNoSlot) {
    charge(slot, event);
    return;
  }
  if (seen_.contains(event.span_id) || totals_.waiting_operators >= kMostWaiting) {
    ++totals_.unattributed_operators;
    return;
  }
  ++totals_.waiting_operators;
  waiting_ops_[std::string(event.span_id)].push_back({std::string(event.op_name), std::string(event.dtype),
                                                      std::string(event.device), std::string(event.ext),
                                                      event.shape, event.timestamp_ns, event.duration_ns});
}

void CallTree::on_memory(const format::Memory& event) {
  const Slot slot = slot_of(event.span_id);
  if (slot == kNoSlot) return;
  spans_[slot].latest_memory_ns = std::max(spans_[slot].latest_memory_ns, event.timestamp_ns);
}

void CallTree::charge(Slot slot, const format::Op& event) {
  Span& span = spans_[slot];
  OperatorCall call;
  call.name = names_.intern(event.op_name);
  call.start_ns = event.timestamp_ns;
  call.duration_ns = call.self_ns = event.duration_ns;
  call.thread = ExtFields(event.ext).integer("thread").value_or(0);
  call.span = &span;
  call.shape = &event.shape;
  call.dtype = event.dtype;
  call.device = event.device;
  call.ext = event.ext;

  const std::uint64_t end = saturating_add(event.timestamp_ns, event.duration_ns);
  axis_.operator_time(event.timestamp_ns, end, span.start_ns, span.closed ? span.end_ns() : 0);
  if (event.timestamp_ns >= span.start_ns) span.latest_op_ns = std::max(span.latest_op_ns, end);
  const bool own = span.kind == format::SpanKind::kOp && span.name == call.name && !span.has_own_op &&
                   span.start_ns == event.timestamp_ns &&
                   (!span.closed || event.duration_ns <= span.duration_ns);
  if (own) {
    span.has_own_op = true;
    span.own_op_ns = event.duration_ns;
    call.self_ns -= std::min(call.self_ns, span.covered.length_within(span.start_ns, end));
  } else {
    add_child(slot, event.timestamp_ns, end);
  }
  const Span* above = own ? parent_of(span) : &span;
  call.top_level = !nearest(above, Ancestors::kOp);
  call.recursive = is_inside(above, format::SpanKind::kOp, call.name);
  for (CallVisitor* visitor : visitors_) visitor->on_operator(call);
  if (own) return;
  if (++span.direct_ops == 1) {
    span.only_op = call.name;
    span.only_op_ns = call.duration_ns;
    span.only_op_thread = call.thread;
  }
  judge_wrapper(span);  // its operator may be written after it ended
}

// Other producers may give a single operator a span of kind op for itself, under another name: no second
// operator.
void CallTree::judge_wrapper(const Span& span) {
  if (own_producer_ || span.kind != format::SpanKind::kOp || !span.closed || span.has_own_op ||
      span.had_children || span.direct_ops != 1) {
    return;
  }
  if (nearest(parent_of(span), Ancestors::kOp)) return;
  for (CallVisitor* visitor : visitors_)
    visitor->on_became_top_level(span.only_op, span.only_op_thread, span.only_op_ns);
}

void CallTree::let_go_of_ended() {
  while (ended_.size() > most_ended_) {
    const Slot slot = ended_.front();
    ended_.pop_front();
    Span& span = spans_[slot];
    if (span.children != 0) {  // its children are still asked about it
      ended_.push_back(slot);
      return;
    }
    if (span.parent != kNoSlot) --spans_[span.parent].children;
    by_id_.erase(by_id_.find(span.id));
    span = Span();
    free_slots_.push_back(slot);
  }
}

std::vector<const Span*> CallTree::open_spans() const {
  std::vector<const Span*> open;
  for (const Span& span : spans_) {
    if (span.in_use && !span.closed) open.push_back(&span);
  }
  std::sort(open.begin(), open.end(), [](const Span* a, const Span* b) {
    return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->order < b->order;
  });
  return open;
}

}  // namespace tensortap::analyzers
