// What an iteration is (architecture §6): a step begins at the first work after the one before and ends after
// an optimizer's step; without optimizers, with the outermost module call.
//
// One thread drives the steps: the first one that loads a batch, zeroes gradients, calls a root module or
// runs a backward pass. Step 0 begins with the first of these (what comes before it is the job's set-up);
// later steps also begin with a plain operator. While no optimizer is known, a root forward in grad mode may
// still be followed by one: the step then ends when the same root is called again, else (no grad) at the
// forward's end.
//
// A job that marks its steps itself (SDK) is believed: from its first step on no border is inferred in this
// process. A step of its own begins where an inferred one could, under the same driver.
//
// Thread rules: the functions are called inside a Callback, on the thread of `state`.
#pragma once

#include <atomic>
#include <cstdint>

namespace tensortap::probe {

struct ThreadState;
struct CaptureState;

struct Steps {
  std::atomic<ThreadState*> driver{nullptr};
  std::atomic<std::uint64_t> number{0};  // of the step that is open, or of the next one; the driver writes it
  bool open = false;
  bool end_pending = false;             // ends once the ranges opened inside it are closed
  bool optimizer_known = false;         // an optimizer exists, be it one that only zeroed gradients so far
  const void* optimizer = nullptr;      // the first one that stepped: its steps are the borders
  const void* previous_root = nullptr;  // root that was called last
  bool border_seen = false;             // an optimizer's step ended one, or the same root came again
  const void* last_root = nullptr;      // root whose forward ended inside the open step, in grad mode
  bool open_by_job = false;             // the open step is one that the job marked

  void reset() noexcept;
};

inline constexpr std::uint64_t kNextStep = ~std::uint64_t{0};

// No border is inferred any more. For the life of the process; any thread. (`false`: tests begin anew.)
void steps_are_by_job(bool by_job = true) noexcept;
// A step that the job marks while nothing is captured: it counts, so that a later capture has the job's own
// numbers.
void step_passes_by_job(std::uint64_t number) noexcept;
// Before a capture is armed: its first step has the number that the job counts up to, if it marks its steps.
void steps_continue(Steps& steps) noexcept;
// A step that the job marks: `number` below 2^32, or kNextStep. False: it can't begin here (counted).
bool step_begins_by_job(CaptureState& capture, ThreadState& state, std::uint64_t number,
                        std::uint64_t now_ns) noexcept;
// Ends it, once the ranges opened inside it are closed. Nothing when none is open on this thread.
void step_ends_by_job(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept;

// Work that may begin a step. `only_later`: not the first one (plain operators).
void step_work_begins(CaptureState& capture, ThreadState& state, std::uint64_t now_ns,
                      bool only_later) noexcept;
void step_root_begins(CaptureState& capture, ThreadState& state, const void* root,
                      std::uint64_t now_ns) noexcept;
// `grad`: was autograd recording in the call? Then a backward pass and an optimizer may follow.
void step_root_ends(CaptureState& capture, ThreadState& state, const void* root, bool grad,
                    std::uint64_t now_ns) noexcept;
void step_optimizer_begins(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept;
void step_optimizer_ends(CaptureState& capture, ThreadState& state, const void* optimizer,
                         std::uint64_t now_ns) noexcept;
// The driving thread ends, its frames are closed: another thread may drive.
void step_driver_ends(CaptureState& capture, ThreadState& state) noexcept;
// After a frame was closed: ends the step when it waits for that.
void step_frame_closed(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept;

}  // namespace tensortap::probe
