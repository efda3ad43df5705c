#include "probe/core/thread_state.h"

#include <cstddef>
#include <cstring>

#include "probe/core/capture_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

SpanKindCode kind_of(FrameType type) noexcept {
  switch (type) {
    case FrameType::kOp:
      return SpanKindCode::kOp;
    case FrameType::kModule:
    case FrameType::kUnseenRoot:
      return SpanKindCode::kModule;
    default:
      return SpanKindCode::kFunction;
  }
}

// u16 length and bytes, for a StrRef field that says kStrInline.
unsigned char* put_inline(unsigned char* at, std::string_view text) noexcept {
  const auto length = static_cast<std::uint16_t>(text.size());
  std::memcpy(at, &length, sizeof length);
  std::memcpy(at + sizeof length, text.data(), text.size());
  return at + sizeof length + text.size();
}

void fill_start(SpanStartRecord& record, const ThreadState& state, const Frame& frame, std::uint32_t index,
                std::uint64_t number) noexcept {
  record.parent = state.nearest_stored(index);
  record.number = number;
  record.start_ns = frame.start_ns;
  record.seq = frame.seq;
  record.forward_thread = frame.forward_thread;
  record.thread = state.thread;
  record.call_index = frame.call_index;
  record.name = frame.name;
  record.detail = frame.detail;
  record.span_kind = kind_of(frame.type);
  record.step = frame.step;
  record.scope = frame.scope;
  record.modes = frame.modes;
  record.tails = frame.tails;
  std::memset(record.reserved, 0, sizeof record.reserved);
  record.header.flags = frame.span_flags;
  if (frame.seq >= 0) record.header.flags |= kSpanHasSeq;
}

void write_end(ThreadState& state, Frame& frame, std::uint64_t end_ns, std::uint64_t own_end_ns,
               std::uint16_t flags) noexcept {
  const bool is_module = frame.type == FrameType::kModule;
  const std::uint32_t output = is_module ? frame.outputs_bytes : 0;
  if (is_module) flags |= frame.op_flags;
  unsigned char* room = output != 0 ? state.ring.reserve(sizeof(SpanEndRecord) + output) : nullptr;
  const bool with_output = room != nullptr;
  if (!with_output) room = state.ring.reserve_end();
  if (room == nullptr) return;  // can't be: it was promised
  auto* record = reinterpret_cast<SpanEndRecord*>(room);
  const auto bytes = static_cast<std::uint32_t>(sizeof *record) + (with_output ? output : 0);
  record->header = {bytes, RecordType::kSpanEnd, flags, state.in_order(end_ns)};
  if (with_output) {
    record->header.flags |= kSpanOutput;
    std::memcpy(room + sizeof *record, state.arena + frame.arena_begin, output);
  } else if (output != 0) {
    record->header.flags |= kSpanOutputCut;
  }
  record->number = frame.number;
  record->duration_ns = end_ns - frame.start_ns;
  record->own_end_ns = own_end_ns;
  if (own_end_ns != end_ns) record->header.flags |= kSpanHeld;
  state.ring.commit(bytes);
  state.ring.end_written();
}

// `span`: what the operator is charged to.
__attribute__((always_inline)) inline void write_op(ThreadState& state, const Frame& frame, SpanRef span,
                                                    std::uint64_t now_ns) noexcept {
  const std::uint32_t values = frame.inputs_bytes + frame.outputs_bytes;
  const auto bytes = static_cast<std::uint32_t>(sizeof(OpRecord)) + values;
  unsigned char* room = state.ring.reserve(bytes);
  if (__builtin_expect(room == nullptr, 0)) return;
  auto* record = reinterpret_cast<OpRecord*>(room);
  const auto flags = static_cast<std::uint16_t>(frame.op_flags | (frame.seq >= 0 ? kOpHasSeq : 0));
  record->header = {bytes, RecordType::kOp, flags, now_ns};
  record->span = span;
  record->start_ns = frame.start_ns;
  record->duration_ns = frame.ended_ns - frame.start_ns;
  record->seq = frame.seq;
  record->thread = state.thread;
  record->name = frame.name;
  record->overload = frame.detail;
  record->inputs = frame.inputs;
  record->outputs = frame.outputs;
  const std::uint64_t scope = frame.scope;  // and the reserved bytes behind it
  std::memcpy(&record->scope, &scope, sizeof scope);
  std::memcpy(room + sizeof *record, state.arena + frame.arena_begin, values);
  state.ring.commit(bytes);
}
static_assert(sizeof(OpRecord) % 8 == 0 && offsetof(OpRecord, scope) + 8 == sizeof(OpRecord));

// A node that had no child: start and end in one record.
void write_whole_span(ThreadState& state, Frame& frame, std::uint32_t index, std::uint64_t now_ns) noexcept {
  unsigned char* room = state.ring.reserve(sizeof(SpanRecord));
  if (room == nullptr) return;
  auto* record = reinterpret_cast<SpanRecord*>(room);
  record->start.header = {sizeof *record, RecordType::kSpan, 0, state.in_order(now_ns)};
  fill_start(record->start, state, frame, index, state.ring.next_span());
  record->duration_ns = frame.ended_ns - frame.start_ns;
  state.ring.commit(sizeof *record);
}

// The frame on top has ended: writes what it leaves and takes it off the stack.
void close_top(ThreadState& state, std::uint64_t now_ns, std::uint16_t flags) noexcept {
  Frame& frame = *state.top();
  const std::uint32_t index = state.depth - 1;
  // What began inside it may have ended later: its span covers that, its own end stands beside.
  const std::uint64_t end_ns = frame.ended_ns > now_ns ? frame.ended_ns : now_ns;
  const bool seen = !before_window(frame.start_ns);
  if (frame.type == FrameType::kOp && seen) {
    const SpanRef span =
        frame.stored ? SpanRef{state.ring.index(), 0, frame.number} : state.nearest_stored(index);
    write_op(state, frame, span, state.in_order(end_ns));
  }
  if (frame.stored) {
    write_end(state, frame, end_ns, frame.ended_ns, flags);
  } else if (frame.type == FrameType::kNode && seen) {
    write_whole_span(state, frame, index, end_ns);
  }
  if (frame.type == FrameType::kModule) --state.open_modules;
  state.arena_used = frame.arena_begin;
  --state.depth;
  if (frame.stored) state.charged = state.nearest_stored(state.depth);
}

}  // namespace

void store_frame(ThreadState& state, std::uint32_t index, std::uint64_t now_ns, std::string_view name_text,
                 SpanTail span_tail) noexcept {
  Frame& frame = state.frames[index];
  if (before_window(frame.start_ns) || !state.ring.promise_end()) return;
  std::uint32_t tail = 0;
  if (frame.name == kStrInline) {
    if (name_text.size() > 4096) name_text = name_text.substr(0, 4096);
    tail = static_cast<std::uint32_t>(round_up_8(sizeof(std::uint16_t) + name_text.size()));
  }
  if (span_tail.size == 0) frame.tails &= static_cast<std::uint8_t>(kArgsCut);
  const auto bytes = static_cast<std::uint32_t>(sizeof(SpanStartRecord)) + tail + span_tail.size;
  unsigned char* room = state.ring.reserve(bytes);
  if (room == nullptr) {
    state.ring.end_written();  // nothing is owed for a start that is not there
    return;
  }
  auto* record = reinterpret_cast<SpanStartRecord*>(room);
  record->header = {bytes, RecordType::kSpanStart, 0, state.in_order(now_ns)};
  frame.number = state.ring.next_span();
  fill_start(*record, state, frame, index, frame.number);
  if (tail != 0) put_inline(room + sizeof *record, name_text);
  if (span_tail.size != 0) std::memcpy(room + sizeof *record + tail, span_tail.bytes, span_tail.size);
  state.ring.commit(bytes);
  frame.stored = true;
  state.charged = state.nearest_stored(state.depth);
}

void write_async_span(ThreadState& state, std::uint64_t start_ns, std::uint64_t end_ns, std::uint32_t thread,
                      StrRef name, std::string_view name_text, std::uint8_t scope) noexcept {
  if (before_window(start_ns)) return;
  std::uint32_t tail = 0;
  if (name == kStrInline) {
    if (name_text.size() > 4096) name_text = name_text.substr(0, 4096);
    tail = static_cast<std::uint32_t>(round_up_8(sizeof(std::uint16_t) + name_text.size()));
  }
  unsigned char* room = state.ring.reserve(static_cast<std::uint32_t>(sizeof(SpanRecord)) + tail);
  if (room == nullptr) return;
  auto* record = reinterpret_cast<SpanRecord*>(room);
  *record = SpanRecord{};
  record->start.header = {static_cast<std::uint32_t>(sizeof *record) + tail, RecordType::kSpan, kSpanAsync,
                          state.in_order(end_ns)};
  record->start.parent = {0, 0, kWindowSpan};
  record->start.number = state.ring.next_span();
  record->start.start_ns = start_ns;
  record->start.seq = -1;
  record->start.thread = thread;
  record->start.name = name;
  record->start.detail = kStrNone;
  record->start.scope = scope;
  record->duration_ns = end_ns - start_ns;
  if (tail != 0) put_inline(room + sizeof *record, name_text);
  state.ring.commit(record->start.header.bytes);
}

bool make_way(ThreadState& state, std::uint64_t now_ns) noexcept {
  if (state.depth == kMaxFrames) {
    ++state.overflow;
    state.ring.drop(DropCause::kDepth);
    return false;
  }
  // The frame below becomes a span. (Frames that are shown while open are stored already, unless the ring was
  // full; then this is another try.)
  if (state.top()->name != kStrInline) store_frame(state, state.depth - 1, now_ns);
  return true;
}

Frame* find_frame(ThreadState& state, const void* key) noexcept {
  for (std::uint32_t i = state.depth; i-- > 0;) {
    if (state.frames[i].key == key && !state.frames[i].ended) return &state.frames[i];
  }
  return nullptr;
}

void end_leaf(ThreadState& state, Frame& frame, std::uint64_t now_ns) noexcept {
  frame.ended_ns = now_ns;
  if (!before_window(frame.start_ns)) write_op(state, frame, state.charged, now_ns);
  state.arena_used = frame.arena_begin;
  --state.depth;
  if (state.drives_steps) step_frame_closed(*state.capture, state, now_ns);
}

void end_frame(ThreadState& state, Frame& frame, std::uint64_t now_ns) noexcept {
  frame.ended = true;
  frame.ended_ns = now_ns;
  CaptureState& capture = *g_capture.load(std::memory_order_acquire);
  while (state.depth != 0 && state.top()->ended) {
    const Frame& top = *state.top();
    const bool is_root = top.step == StepCode::kForward;
    const bool is_optimizer = top.step == StepCode::kOptimizer;
    const void* key = top.key;
    const void* who = top.who;
    const bool grad = top.grad;
    close_top(state, now_ns, 0);
    if (is_root) step_root_ends(capture, state, key, grad, now_ns);
    if (is_optimizer) step_optimizer_ends(capture, state, who, now_ns);
    step_frame_closed(capture, state, now_ns);
  }
}

void cut_frames(ThreadState& state, std::uint64_t now_ns, std::uint16_t flags) noexcept {
  CaptureState& capture = *g_capture.load(std::memory_order_acquire);
  // The inferred call of an unseen root ends when nothing follows it; that is its end, not a cut.
  if (Frame* top = state.top(); top != nullptr && top->type == FrameType::kUnseenRoot)
    end_frame(state, *top, now_ns);
  while (state.depth != 0) {
    Frame& frame = *state.top();
    if (!frame.ended) frame.ended_ns = now_ns;
    if (before_window(frame.start_ns)) {
      close_top(state, now_ns, 0);  // nothing of it was written
      continue;
    }
    if ((frame.type == FrameType::kOp || frame.type == FrameType::kNode) && !frame.stored && !frame.ended) {
      capture.memory.count(Counter::kCutAtStop);
      state.arena_used = frame.arena_begin;
      --state.depth;  // not stored: `charged` stays
      continue;
    }
    if (!frame.ended) {
      capture.memory.count(Counter::kOpenAtStop);
      if (frame.type == FrameType::kOp) frame.type = FrameType::kRange;  // its end was not seen: no op record
    }
    close_top(state, now_ns, frame.ended ? 0 : flags);
  }
  state.overflow = 0;
  state.open_modules = 0;
}

}  // namespace tensortap::probe
