// The shared memory between a probe and the daemon: one memfd per process.
//
//   ┌────────────────┬──────────────┬──────────────────────────┬──────────────────────────────────┐
//   │ SessionHeader  │ RingHeader×N │ string table             │ segment pool                     │
//   │ (pool bitmap,  │ (heads,      │ u32 length, bytes, pad 8 │ kSegmentBytes each; a ring takes │
//   │  counters)     │  segment ids)│ append-only, capped      │ what it needs, gives it back     │
//   └────────────────┴──────────────┴──────────────────────────┴──────────────────────────────────┘
//
// A ring has one producer (the thread that owns it) and one consumer (the drain; the daemon when the job is
// dead). A position is a monotone byte count; position p lies in pool segment `segment[(p / kSegmentBytes) %
// kRingSegments]` at offset p % kSegmentBytes. `head` is published with release order after a record is
// whole. A record never crosses a segment border: a pad record fills the end of a segment. `released` is what
// the daemon has acknowledged; segments before it go back to the pool.
//
// The job writes it, so the daemon believes nothing in it: it copies (pread) and checks every length. All
// values are in the byte order of the machine: both sides run on it. C++17; no dependency.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tensortap::format {

inline constexpr std::uint64_t kRingMagic = 0x31474E4952545454ULL;  // "TTTRING1"
inline constexpr std::uint32_t kRingVersion = 4;
inline constexpr std::uint64_t kSegmentBytes = 32 * 1024;
inline constexpr std::uint32_t kRingSegments = 1024;  // segments one ring may hold: 32 MiB in flight
inline constexpr std::uint32_t kMaxRings =
    4096;  // ring 0 is the session's own (meta, root, window, terminal)
inline constexpr std::uint32_t kMaxPoolSegments = 8192;  // 256 MiB
inline constexpr std::uint64_t kStringTableBytes = 4 * 1024 * 1024;

// Why a record was not written. The order is part of the protocol (names: drop_cause_name).
enum class DropCause : std::uint32_t { kRingFull, kNoRing, kDepth, kCount };

// What the probe noticed, counted (names: counter_name). Shown in the ledger and the report's "not seen"
// part.
enum class Counter : std::uint32_t {
  kLateArm,       // 1 when the probe or a daemon came later than the job: what ran until then was not seen
  kBeforeWindow,  // operators that began before the window: their ends were ignored
  kCutAtStop,     // leaf operators still running at the window's end: not written
  kOpenAtStop,    // spans closed at the window's end with ext.cut
  kFreesOfUnseenBlocks,  // frees of blocks allocated before the window: counted, not written
  kUntrackedBlocks,      // blocks that the live-block table had no room for
  kInputsCut,            // operators whose input list was cut
  kRecordsCut,           // records larger than half a segment, cut
  kStepBordersSkipped,   // step borders that could not nest
  kCompiledRegions,      // calls into code of torch.compile: what is fused inside emits no operator
  kScriptFunctions,      // TorchScript functions: interpreter primitives emit no operator
  kStringsInline,        // names written inline because the string table was full
  kOrphanEnds,           // ends of ranges whose start was not found
  kTensorIdsEvicted,     // tensors that may have got a second id
  kPythonHooks,          // 1 when module hooks are in place in the interpreter
  kPythonHooksFailed,    // 1 when they could not be put in place
  kWindowNeverReached,   // 1 when the step at which the capture was to begin never came
  kReplacedBytes,        // bytes of texts that were not UTF-8, in lines as often as they were written
  kGradientNormSkipped,  // gradients whose values could not be read (not contiguous host memory): left out
  kGradientReadEarly,    // backward passes that came after their step's gradients had been read
  kGradientsUnread,      // backward passes outside of any step, or on a thread that drives none
  kGradientNonFinite,    // gradients with an element that is not finite
  kParameterUnnamed,     // parameters of a C++ optimizer whose module was not seen
  kValuesNotRecorded,    // asked-for statistics of tensors whose values could not be read: left out
  kWaitedForRoom,        // times a thread of the job waited because its ring was full (policy `block`)
  kCount,
};

struct RingHeader {
  std::atomic<std::uint32_t> state;  // RingState
  std::uint32_t thread;              // serial number of the owning thread, from 1
  std::uint64_t tid;                 // the kernel's thread id
  std::atomic<std::uint64_t> head;
  std::atomic<std::uint64_t> released;
  std::uint64_t next_span;  // span numbers go on when the ring is used again
  std::atomic<std::uint64_t> offered;
  std::atomic<std::uint64_t> stored;
  std::atomic<std::uint64_t> dropped[static_cast<std::size_t>(DropCause::kCount)];
  std::atomic<std::uint16_t> segment[kRingSegments];  // pool index + 1; 0 = none
};
enum RingState : std::uint32_t { kRingFree = 0, kRingOwned = 1, kRingEnded = 2 };

struct SessionHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ring_count;  // == kMaxRings
  std::uint64_t total_bytes;
  std::uint64_t rings_offset;  // of RingHeader[ring_count]
  std::uint64_t strings_offset;
  std::uint64_t strings_bytes;
  std::uint64_t pool_offset;
  std::uint32_t pool_segments;
  std::uint32_t reserved;
  std::uint64_t pid;
  std::uint64_t clock_zero_ns;            // CLOCK_MONOTONIC at the session's time 0
  std::atomic<std::uint32_t> rings_used;  // high-water mark: rings at or above it were never owned
  std::atomic<std::uint32_t> threads_seen;
  std::atomic<std::uint64_t> strings_tail;  // bytes used, from strings_offset
  std::atomic<std::uint64_t> counters[static_cast<std::size_t>(Counter::kCount)];
  std::atomic<std::uint64_t> pool_bitmap[kMaxPoolSegments / 64];  // 1 = taken
};

inline const char* drop_cause_name(DropCause cause) {
  switch (cause) {
    case DropCause::kRingFull:
      return "ring_full";
    case DropCause::kNoRing:
      return "no_ring";
    case DropCause::kDepth:
      return "nesting_too_deep";
    case DropCause::kCount:
      break;
  }
  return "?";
}

inline const char* counter_name(Counter counter) {
  switch (counter) {
    case Counter::kLateArm:
      return "late_arm";
    case Counter::kBeforeWindow:
      return "before_window";
    case Counter::kCutAtStop:
      return "cut_at_stop";
    case Counter::kOpenAtStop:
      return "open_at_stop";
    case Counter::kFreesOfUnseenBlocks:
      return "free_of_unseen_block";
    case Counter::kUntrackedBlocks:
      return "untracked_block";
    case Counter::kInputsCut:
      return "inputs_cut";
    case Counter::kRecordsCut:
      return "record_too_large";
    case Counter::kStepBordersSkipped:
      return "step_border_skipped";
    case Counter::kCompiledRegions:
      return "compiled_region";
    case Counter::kScriptFunctions:
      return "script_function";
    case Counter::kStringsInline:
      return "string_table_full";
    case Counter::kOrphanEnds:
      return "orphan_end";
    case Counter::kTensorIdsEvicted:
      return "tensor_id_evicted";
    case Counter::kPythonHooks:
      return "python_hooks";
    case Counter::kPythonHooksFailed:
      return "python_hooks_unavailable";
    case Counter::kWindowNeverReached:
      return "window_never_reached";
    case Counter::kReplacedBytes:
      return "replaced_bytes";
    case Counter::kGradientNormSkipped:
      return "gradient_norm_skipped";
    case Counter::kGradientReadEarly:
      return "gradient_read_early";
    case Counter::kGradientsUnread:
      return "gradient_unread";
    case Counter::kGradientNonFinite:
      return "gradient_non_finite";
    case Counter::kParameterUnnamed:
      return "parameter_unnamed";
    case Counter::kValuesNotRecorded:
      return "values_not_recorded";
    case Counter::kWaitedForRoom:
      return "waited_for_room";
    case Counter::kCount:
      break;
  }
  return "?";
}

inline constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}
inline constexpr std::uint64_t rings_offset() { return round_up(sizeof(SessionHeader), 4096); }
inline constexpr std::uint64_t strings_offset() {
  return round_up(rings_offset() + kMaxRings * sizeof(RingHeader), 4096);
}
inline constexpr std::uint64_t pool_offset() {
  return round_up(strings_offset() + kStringTableBytes, kSegmentBytes);
}

}  // namespace tensortap::format
