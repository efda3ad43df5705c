// What one job thread is doing: its ring and its stack of open operators, ranges, module calls and phases.
//
//   step-000000000003 (kStep)           stored: span_start is in the ring
//   └ Net (kModule)                     stored
//     └ aten::linear (kOp)              stored when its first child begins; then it is a span with an `op` of
//     its own
//       └ aten::addmm (kOp)             not stored: without a child it becomes one `op` record at its end
//
// A frame's end finds its frame by identity (`key`), not by the top of the stack: ranges may end out of
// order. Such a frame is marked `ended`, and its span closes when the frames above it have closed.
//
// Thread rules: only the owning thread touches it while `busy`; the stopper (capture.cpp) takes over once no
// thread is busy. Memory is mapped once per thread and used again by later threads; it has no destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "format/ring_record.h"
#include "probe/core/clock.h"
#include "probe/core/identity_tables.h"
#include "probe/core/name_cache.h"
#include "probe/core/ring_producer.h"

namespace tensortap::probe {

struct CaptureState;

enum class FrameType : std::uint8_t {
  kOp,          // an operator (has a schema)
  kScript,      // a TorchScript function: a range that may end on another thread
  kRange,       // a user's range
  kNode,        // an autograd node, or another range without schema
  kModule,      // a module call
  kUnseenRoot,  // the inferred call of a user's C++ module class
  kPhase,       // backward, optimizer (C++)
  kStep,        // an iteration
};

struct Frame {
  const void* key = nullptr;
  std::uint64_t start_ns = 0;
  std::uint64_t ended_ns = 0;
  std::uint64_t number = 0;  // of its span, when stored
  std::int64_t seq = -1;
  std::uint64_t forward_thread = 0;
  const void* who = nullptr;  // kUnseenRoot: its first child; optimizer frames: the optimizer
  format::StrRef name = format::kStrNone;
  format::StrRef detail = format::kStrNone;
  std::uint32_t call_index = 0;
  std::uint32_t arena_begin = 0;
  std::uint32_t inputs_bytes = 0;
  std::uint32_t outputs_bytes = 0;
  std::uint16_t inputs = 0;
  std::uint16_t outputs = 0;
  std::uint16_t span_flags = 0;
  std::uint16_t op_flags = 0;
  FrameType type = FrameType::kOp;
  std::uint8_t scope = format::kScopeNone;
  format::StepCode step = format::StepCode::kNone;
  bool stored = false;
  bool ended = false;
  bool grad = true;        // of a root's call: was autograd recording in it?
  std::uint8_t modes = 0;  // kModule: format::CallModes
  std::uint8_t tails = 0;  // kModule: format::SpanTails, while its tail is at hand
};

// Bytes behind a span's start: what a module call carries (format/module_nodes.h).
struct SpanTail {
  const unsigned char* bytes = nullptr;
  std::uint32_t size = 0;
};

inline constexpr std::uint32_t kMaxFrames = 512;
inline constexpr std::uint32_t kArenaBytes = 128 * 1024;

inline constexpr std::uint32_t kNoGeneration = 0xFFFFFFFFu;

struct ThreadState {
  std::atomic<std::uint32_t> busy{0};
  std::uint32_t generation = kNoGeneration;  // of the window that the members below belong to
  CaptureState* capture = nullptr;
  std::uint32_t thread = 0;     // serial number, from 1
  ThreadState* next = nullptr;  // all states ever made
  ThreadState* next_free = nullptr;
  RingProducer ring;
  ThreadClock clock;
  NumberRange storage_numbers, tensor_numbers;
  format::SpanRef charged;  // nearest_stored(depth), kept: the span that what happens now is charged to
  std::uint32_t depth = 0;
  std::uint32_t overflow = 0;  // frames beyond kMaxFrames that are open
  std::uint32_t arena_used = 0;
  std::uint32_t open_modules = 0;
  bool drives_steps = false;
  bool compiled_lookup = false;    // the look-up of the compiled code that comes next was counted
  std::uint64_t torch_thread = 0;  // RecordFunction's id of this thread; 0: not noted yet
  std::atomic<bool> in_use{false};
  Frame frames[kMaxFrames];
  NameCacheEntry names[kNameCacheEntries];
  unsigned char arena[kArenaBytes];

  std::uint64_t now() noexcept { return clock.now(); }
  Frame* top() noexcept { return depth == 0 ? nullptr : &frames[depth - 1]; }
  // The stored span below frame `below`; the window when there is none.
  format::SpanRef nearest_stored(std::uint32_t below) const noexcept {
    for (std::uint32_t i = below; i-- > 0;) {
      if (frames[i].stored) return {ring.index(), 0, frames[i].number};
    }
    return {0, 0, format::kWindowSpan};
  }
  // For a record's header, whose time never falls within a ring.
  std::uint64_t in_order(std::uint64_t time_ns) noexcept { return clock.not_before(time_ns); }
};

// Writes a frame's span_start now (ranges, modules, phases, steps: they are shown while open).
void store_frame(ThreadState& state, std::uint32_t index, std::uint64_t now_ns,
                 std::string_view name_text = {}, SpanTail tail = {}) noexcept;
// The frame below the top gets a child and is not stored yet, or the stack is full. False: too deep, counted.
bool make_way(ThreadState& state, std::uint64_t now_ns) noexcept;

// Opens a frame on top of the stack (the frame below it becomes a stored span). nullptr: too deep, counted.
inline Frame* push_frame(ThreadState& state, FrameType type, const void* key, std::uint64_t now_ns) noexcept {
  const std::uint32_t depth = state.depth;
  if (depth != 0 && (!state.frames[depth - 1].stored || depth == kMaxFrames)) {
    if (!make_way(state, now_ns)) return nullptr;
  }
  state.depth = depth + 1;
  Frame& frame = state.frames[depth];
  frame = Frame{};
  frame.type = type;
  frame.key = key;
  frame.start_ns = now_ns;
  frame.arena_begin = state.arena_used;
  return &frame;
}
// The frame of `key`, from the top; nullptr when it is not on this thread's stack.
Frame* find_frame(ThreadState& state, const void* key) noexcept;
// Ends an operator that is on top of the stack and had no child: one record, and its frame is gone. `now_ns`
// is this thread's time now.
void end_leaf(ThreadState& state, Frame& frame, std::uint64_t now_ns) noexcept;
// Ends a frame: at once when it is on top, else when the frames above it have closed.
void end_frame(ThreadState& state, Frame& frame, std::uint64_t now_ns) noexcept;
// Closes everything that is open, as cut (`flags`: kSpanCut, kSpanThreadEnd).
void cut_frames(ThreadState& state, std::uint64_t now_ns, std::uint16_t flags) noexcept;
// A range that may end on another thread has ended: start and end in one record, under the window.
void write_async_span(ThreadState& state, std::uint64_t start_ns, std::uint64_t end_ns, std::uint32_t thread,
                      format::StrRef name, std::string_view name_text, std::uint8_t scope) noexcept;

}  // namespace tensortap::probe
