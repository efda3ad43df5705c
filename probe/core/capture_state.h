// The probe's one capture: what all threads share. Internal to probe/core and probe/torch.
//
// Life: run.cpp makes the shared memory and fills a CaptureState; arm_capture lets the threads follow what
// they do (frames, steps) without writing; open_window lets them write; close_window ends it. Forked children
// leave it (leave_parent) and make their own. A CaptureState is never freed, because a thread may still look
// at it; it is used again (run.cpp).
#pragma once

#include <atomic>
#include <cstdint>

#include "probe/core/clock.h"
#include "probe/core/identity_tables.h"
#include "probe/core/shared_memory.h"
#include "probe/core/steps.h"
#include "probe/core/string_interner.h"
#include "probe/core/thread_state.h"

namespace tensortap::probe {

// Ends of ranges whose start is on another thread's stack: the owner looks here when such a range is on its
// top.
struct OrphanEnds {
  static constexpr std::uint32_t kSlots = 64;
  std::atomic<std::uint32_t> waiting{0};
  std::atomic<const void*> keys[kSlots] = {};
  std::atomic<std::uint64_t> ended_ns[kSlots] = {};

  bool put(const void* key, std::uint64_t time_ns) noexcept {
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      const void* none = nullptr;
      if (keys[i].load(std::memory_order_relaxed) != nullptr) continue;
      ended_ns[i].store(time_ns, std::memory_order_relaxed);
      if (!keys[i].compare_exchange_strong(none, key, std::memory_order_acq_rel)) continue;
      waiting.fetch_add(1, std::memory_order_acq_rel);
      return true;
    }
    return false;
  }
  // The time at which `key` ended, 0 when it did not.
  std::uint64_t take(const void* key) noexcept {
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      if (keys[i].load(std::memory_order_acquire) != key) continue;
      const std::uint64_t time_ns = ended_ns[i].load(std::memory_order_relaxed);
      keys[i].store(nullptr, std::memory_order_release);
      waiting.fetch_sub(1, std::memory_order_acq_rel);
      return time_ns;
    }
    return 0;
  }
};

// Which iterations a capture is for; set before it is armed. The thread that drives the steps opens and
// closes the window at their borders.
struct StepPlan {
  bool opens = false;  // the window opens at the first border of an iteration >= `first`
  // The job was running before: what looks like an iteration at first may be the rest of one, or a part of a
  // model that nobody saw being called. The window opens where an iteration was seen to end.
  bool late = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;     // the window closes after so many; 0 = it does not
  std::uint64_t last = ~0ull;  // known once the window is open; of the driving thread
};

// Our serial numbers of threads by the ids that torch gives them. A thread that is pushed out by another one
// is not found any more.
struct TorchThreads {
  static constexpr std::uint32_t kSlots = 4096;
  std::atomic<std::uint64_t> slots[kSlots] = {};  // id << 32 | serial

  void note(std::uint64_t id, std::uint32_t serial) noexcept {
    slots[id % kSlots].store(id << 32 | serial, std::memory_order_relaxed);
  }
  // 0: not known.
  std::uint32_t find(std::uint64_t id) const noexcept {
    const std::uint64_t found = slots[id % kSlots].load(std::memory_order_relaxed);
    return found >> 32 == (id & 0xFFFFFFFFu) ? static_cast<std::uint32_t>(found) : 0;
  }
};

struct CaptureState {
  SharedMemory memory;
  StringInterner strings;
  BlockTable blocks;
  TensorTable tensors;
  Steps steps;
  OrphanEnds orphans;
  StepPlan plan;
  TorchThreads torch_threads;
  std::uint64_t gradients_read =
      0;                           // number + 1 of the last step whose gradients were read (step driver only)
  bool gradients_pending = false;  // a backward pass waits for its optimizer (step driver only)
  std::uint64_t clock_zero_ns = 0;
  std::atomic<std::uint64_t> stop_ns{0};  // a step's end closed the window: when. 0 = not
  ClockBase clock;

  // For the session; a job thread asks its own clock (ThreadState::now), which is cheaper.
  std::uint64_t now() const noexcept { return monotonic_ns() - clock_zero_ns; }

  // After a run: its memory goes back to the system. Before the next one: as new. No thread may be inside.
  void give_back() noexcept;
  void reset() noexcept;
};

extern std::atomic<bool> g_capturing;  // armed: threads follow what they do
// When the window opened, in the capture's time. What began before is not written; kNoWindow: not open yet.
inline constexpr std::uint64_t kNoWindow = ~0ull;
extern std::atomic<std::uint64_t> g_window_ns;
extern std::atomic<CaptureState*> g_capture;
extern std::atomic<std::uint32_t> g_generation;
// Set by the backend: is autograd recording on this thread? (core knows no torch)
extern bool (*g_grad_enabled)() noexcept;
// Set by the backend: kModeGrad, kModeInference, kModeAutocast of this thread.
extern std::uint8_t (*g_thread_modes)() noexcept;
// Set by a fork's child: opens the child's own session at its first operator. nullptr otherwise.
extern std::atomic<void (*)()> g_open_after_fork;

// This thread's state; nullptr before its first event. One pointer, in the static TLS block and without a
// constructor (__thread): no function call to reach it.
extern __attribute__((tls_model("initial-exec"))) __thread ThreadState* t_state;
// The generation while a window is open, else 0: what a thread compares its own with. Stays 0 where the
// stopper can't make all threads pass a barrier (membarrier): then each callback goes the slow way.
extern std::atomic<std::uint32_t> g_open_generation;

// Is inside a callback of ours: the window is open, and the stopper waits until this is gone.
//   if (Callback callback; callback) { callback.state()…; callback.capture()… }
class Callback {
 public:
  Callback() noexcept {
    ThreadState* state = t_state;
    if (__builtin_expect(state == nullptr || !enter(*state), 0)) state = enter_first();
    state_ = state;
  }
  ~Callback() {
    if (state_ != nullptr) state_->busy.store(0, std::memory_order_release);
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  explicit operator bool() const noexcept { return state_ != nullptr; }
  ThreadState& state() const noexcept { return *state_; }
  CaptureState& capture() const noexcept { return *state_->capture; }

 private:
  // Pairs with close_window: either we see the window closed, or it sees us busy.
  static bool enter(ThreadState& state) noexcept {
    if (state.busy.load(std::memory_order_relaxed) != 0) return false;  // inside ourselves already
    state.busy.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (g_open_generation.load(std::memory_order_relaxed) == state.generation) return true;
    state.busy.store(0, std::memory_order_release);
    return false;
  }
  // No window, inside ourselves, the thread's first event in this window, or a stopper without a barrier.
  // nullptr: not entered.
  static ThreadState* enter_first() noexcept;

  ThreadState* state_;
};

// The kernel is told that this process counts on barriers (membarrier). It may wait for all processors of the
// machine to have had their turn, a second on a loaded one: never on the way to an open window. False: there
// are none.
bool register_barriers() noexcept;
// Threads leave their own fence out from now on. After register_barriers, under the session's lock.
void use_barriers() noexcept;

// From now on threads follow what they do. The capture must be complete.
void arm_capture(CaptureState* capture) noexcept;
// Opens the window: what begins at `window_ns` or later is written. Arms the capture first when that was not
// done. The window's own span must be in ring 0.
void open_window(CaptureState* capture, std::uint64_t window_ns = 0) noexcept;
// The same at the border of a step, by the thread that drives them: writes the window's span into its own
// ring. False: another one was first.
bool open_window_at_step(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept;
// The last step of the plan has ended: nothing that comes is written. close_window must follow.
void stop_at_step(CaptureState& capture, std::uint64_t now_ns) noexcept;
inline bool window_is_open() noexcept { return g_window_ns.load(std::memory_order_acquire) != kNoWindow; }
inline bool before_window(std::uint64_t time_ns) noexcept {
  return time_ns < g_window_ns.load(std::memory_order_acquire);
}
// Closes the window: waits until no thread is inside a callback (at most `patience_ns`), closes what is open.
// Returns the window's end; `*quiet` (if not null) becomes false when a thread was still inside.
std::uint64_t close_window(CaptureState* capture, std::uint64_t patience_ns, bool* quiet = nullptr) noexcept;
// In a fork's child, before anything else: forget the parent's capture and threads.
void leave_parent() noexcept;

}  // namespace tensortap::probe
