#include "probe/core/steps.h"

#include <cstdio>

#include "probe/core/capture_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

std::atomic<bool> g_by_job{false};
std::atomic<std::uint64_t> g_next_number{0};  // of the next step that the job marks
bool by_job() noexcept { return g_by_job.load(std::memory_order_relaxed); }

// Does this thread drive the steps? The first one that asks does.
bool drives(Steps& steps, ThreadState& state) noexcept {
  if (state.drives_steps) return true;
  ThreadState* none = nullptr;
  if (!steps.driver.compare_exchange_strong(none, &state, std::memory_order_acq_rel)) return false;
  state.drives_steps = true;
  return true;
}

// A step can only begin where nothing but ranges is open.
bool only_ranges_open(const ThreadState& state) noexcept {
  if (state.overflow != 0) return false;
  for (std::uint32_t i = 0; i < state.depth; ++i) {
    if (state.frames[i].type != FrameType::kRange) return false;
  }
  return true;
}

void begin(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept {
  Steps& steps = capture.steps;
  if (!only_ranges_open(state)) {
    capture.memory.count(Counter::kStepBordersSkipped);
    return;
  }
  const std::uint64_t number = steps.number.load(std::memory_order_relaxed);
  StepPlan& plan = capture.plan;
  const bool at_border = !plan.late || steps.border_seen;
  if (plan.opens && at_border && number >= plan.first && open_window_at_step(capture, state, now_ns)) {
    if (plan.count != 0) plan.last = number + plan.count - 1;
  }
  char name[32];
  const int length =
      std::snprintf(name, sizeof name, "step-%012llu", static_cast<unsigned long long>(number));
  Frame* frame = push_frame(state, FrameType::kStep, &steps, now_ns);
  if (frame == nullptr) return;
  frame->name = kStrInline;  // each step's name is used once: not worth a place in the table
  frame->call_index = static_cast<std::uint32_t>(number);
  frame->span_flags = kSpanIsStep;
  steps.open = true;
  steps.end_pending = false;
  steps.last_root = nullptr;
  steps.open_by_job = by_job();
  store_frame(state, state.depth - 1, now_ns, {name, static_cast<std::size_t>(length)});
}

void request_end(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept {
  capture.steps.end_pending = true;
  step_frame_closed(capture, state, now_ns);
}

}  // namespace

void Steps::reset() noexcept {
  driver.store(nullptr, std::memory_order_relaxed);
  number.store(0, std::memory_order_relaxed);
  open = end_pending = optimizer_known = border_seen = open_by_job = false;
  optimizer = previous_root = last_root = nullptr;
}

void step_work_begins(CaptureState& capture, ThreadState& state, std::uint64_t now_ns,
                      bool only_later) noexcept {
  Steps& steps = capture.steps;
  if (by_job()) return;
  if (only_later && (!state.drives_steps || steps.number.load(std::memory_order_relaxed) == 0)) return;
  if (!drives(steps, state) || steps.open) return;
  if (only_later && !only_ranges_open(state)) return;
  begin(capture, state, now_ns);
}

void step_root_begins(CaptureState& capture, ThreadState& state, const void* root,
                      std::uint64_t now_ns) noexcept {
  Steps& steps = capture.steps;
  if (by_job() || !drives(steps, state)) return;
  if (steps.previous_root == root) steps.border_seen = true;
  steps.previous_root = root;
  if (steps.open && !steps.optimizer_known && steps.last_root == root && !steps.end_pending) {
    request_end(capture, state, now_ns);  // no optimizer came: the forward before was a step of its own
    if (steps.open) capture.memory.count(Counter::kStepBordersSkipped);
  }
  if (!steps.open) begin(capture, state, now_ns);
}

void step_root_ends(CaptureState& capture, ThreadState& state, const void* root, bool grad,
                    std::uint64_t now_ns) noexcept {
  Steps& steps = capture.steps;
  if (!state.drives_steps || !steps.open || steps.open_by_job || steps.optimizer_known) return;
  if (grad) {
    steps.last_root = root;
  } else {
    request_end(capture, state, now_ns);
  }
}

void step_optimizer_begins(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept {
  if (by_job() || !drives(capture.steps, state)) return;
  capture.steps.optimizer_known = true;
  if (!capture.steps.open) begin(capture, state, now_ns);
}

void step_optimizer_ends(CaptureState& capture, ThreadState& state, const void* optimizer,
                         std::uint64_t now_ns) noexcept {
  Steps& steps = capture.steps;
  if (!state.drives_steps || !steps.open || steps.open_by_job) return;
  if (steps.optimizer == nullptr) steps.optimizer = optimizer;
  if (steps.optimizer != optimizer) return;
  steps.border_seen = true;
  request_end(capture, state, now_ns);
}

// Whoever marks the next step drives it: of the steps that a job marks, one is open at a time, on any thread.
static void let_others_drive(Steps& steps, ThreadState& state) noexcept {
  state.drives_steps = false;
  steps.driver.store(nullptr, std::memory_order_release);
}

void steps_are_by_job(bool marked) noexcept {
  g_by_job.store(marked, std::memory_order_relaxed);
  if (!marked) g_next_number.store(0, std::memory_order_relaxed);
}

void step_passes_by_job(std::uint64_t number) noexcept {
  steps_are_by_job();
  if (number == kNextStep) {
    g_next_number.fetch_add(1, std::memory_order_relaxed);
  } else {
    g_next_number.store(number + 1, std::memory_order_relaxed);
  }
}

void steps_continue(Steps& steps) noexcept {
  if (by_job()) steps.number.store(g_next_number.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

bool step_begins_by_job(CaptureState& capture, ThreadState& state, std::uint64_t number,
                        std::uint64_t now_ns) noexcept {
  steps_are_by_job();
  Steps& steps = capture.steps;
  steps.border_seen = true;
  const bool fits = number == kNextStep || number <= 0xFFFFFFFFu;  // a record holds 32 bits of it
  // One that was inferred before the job's first: it ends here.
  if (state.drives_steps && steps.open && !steps.open_by_job) request_end(capture, state, now_ns);
  if (fits && drives(steps, state) && !steps.open) {
    const std::uint64_t before = steps.number;
    const std::uint64_t counted = g_next_number.load(std::memory_order_relaxed);
    if (number != kNextStep) {
      steps.number = number;
    } else if (counted > steps.number) {
      steps.number = counted;
    }
    begin(capture, state, now_ns);
    if (steps.open) {
      g_next_number.store(steps.number + 1, std::memory_order_relaxed);
      return true;
    }
    steps.number = before;
    let_others_drive(steps, state);
    return false;  // counted by begin
  }
  capture.memory.count(Counter::kStepBordersSkipped);
  return false;
}

void step_ends_by_job(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept {
  if (state.drives_steps && capture.steps.open && capture.steps.open_by_job) {
    request_end(capture, state, now_ns);
  }
}

void step_driver_ends(CaptureState& capture, ThreadState& state) noexcept {
  Steps& steps = capture.steps;
  if (steps.open) steps.number.fetch_add(1, std::memory_order_relaxed);
  steps.open = steps.end_pending = false;
  steps.last_root = nullptr;
  state.drives_steps = false;
  steps.driver.store(nullptr, std::memory_order_release);
}

void step_frame_closed(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept {
  Steps& steps = capture.steps;
  if (!state.drives_steps || !steps.end_pending) return;
  Frame* top = state.top();
  if (top == nullptr || top->type != FrameType::kStep) return;
  steps.end_pending = false;
  steps.open = false;
  const std::uint64_t ended = steps.number.fetch_add(1, std::memory_order_relaxed);
  end_frame(state, *top, now_ns);
  if (by_job()) let_others_drive(steps, state);
  if (ended >= capture.plan.last) stop_at_step(capture, now_ns);
}

}  // namespace tensortap::probe
