#include "probe/core/capture.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "probe/core/capture_state.h"
#include "probe/core/evidence.h"
#include "probe/core/line_record.h"
#include "probe/core/notes.h"
#include "probe/core/process_facts.h"
#include "probe/core/tensor_reader.h"

namespace tensortap::probe {

using namespace format;

std::atomic<bool> g_capturing{false};
std::atomic<std::uint64_t> g_window_ns{kNoWindow};
std::atomic<CaptureState*> g_capture{nullptr};
std::atomic<std::uint32_t> g_generation{1};
bool (*g_grad_enabled)() noexcept = nullptr;
std::uint8_t (*g_thread_modes)() noexcept = nullptr;
bool (*g_tensor_facts)(CaptureState&, const void*, TensorFacts&) noexcept = nullptr;
bool (*g_function_mode_active)() noexcept = nullptr;
std::atomic<void (*)()> g_open_after_fork{nullptr};
__thread ThreadState* t_state = nullptr;
std::atomic<std::uint32_t> g_open_generation{0};

namespace {

std::atomic<ThreadState*> g_states{nullptr};      // all ever made
std::atomic_flag g_free_lock = ATOMIC_FLAG_INIT;  // thread start and end only
ThreadState* g_free_states = nullptr;
pthread_key_t g_thread_end_key;
pthread_once_t g_key_once = PTHREAD_ONCE_INIT;

void lock_free_list() noexcept {
  while (g_free_lock.test_and_set(std::memory_order_acquire)) {
  }
}
void unlock_free_list() noexcept { g_free_lock.clear(std::memory_order_release); }

// A thread is ending. Its ring goes back when it is drained; operators that still come take a new state.
void thread_ends(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  if (state == nullptr || t_state != state) return;  // a child of fork, or ended before
  if (Callback callback; callback) {
    if (state->depth != 0) cut_frames(*state, state->now(), kSpanCut | kSpanThreadEnd);
    if (state->drives_steps) step_driver_ends(callback.capture(), *state);
    state->ring.detach();
    state->ring.header()->state.store(kRingEnded, std::memory_order_release);
  }
  t_state = nullptr;
  state->in_use.store(false, std::memory_order_release);
  lock_free_list();
  state->next_free = g_free_states;
  g_free_states = state;
  unlock_free_list();
}

void make_key() { pthread_key_create(&g_thread_end_key, thread_ends); }

ThreadState* take_state() noexcept {
  lock_free_list();
  ThreadState* state = g_free_states;
  if (state != nullptr) g_free_states = state->next_free;
  unlock_free_list();
  if (state != nullptr) return state;
  void* mapped = mmap(nullptr, sizeof(ThreadState), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  state = new (mapped) ThreadState;
  ThreadState* head = g_states.load(std::memory_order_relaxed);
  do {
    state->next = head;
  } while (!g_states.compare_exchange_weak(head, state, std::memory_order_acq_rel));
  return state;
}

bool claim_ring(SharedMemory& memory, std::uint32_t index) noexcept {
  std::atomic<std::uint32_t>& ring = memory.rings[index].state;
  std::uint32_t expected = kRingFree;
  return ring.load(std::memory_order_relaxed) == kRingFree &&
         ring.compare_exchange_strong(expected, kRingOwned, std::memory_order_acq_rel);
}

// A ring for this thread: one that was given back, else a new one. Ring 0 is the session's own. A new one is
// claimed like any other: from the moment it counts as used, another thread may find it free.
bool take_ring(CaptureState& capture, ThreadState& state) noexcept {
  SharedMemory& memory = capture.memory;
  std::uint32_t used = memory.header->rings_used.load(std::memory_order_acquire);
  std::uint32_t index = 0;
  for (std::uint32_t i = 1; i < used && index == 0; ++i) {
    if (claim_ring(memory, i)) index = i;
  }
  while (index == 0) {
    if (used >= kMaxRings) return false;
    if (!memory.header->rings_used.compare_exchange_weak(used, used + 1, std::memory_order_acq_rel)) continue;
    if (claim_ring(memory, used))
      index = used;
    else
      ++used;
  }
  RingHeader& header = memory.rings[index];
  header.thread = memory.header->threads_seen.fetch_add(1, std::memory_order_relaxed) + 1;
  header.tid = static_cast<std::uint64_t>(syscall(SYS_gettid));
  state.ring.attach(&memory, index);
  state.thread = header.thread;
  return true;
}

// First event of a thread in this capture.
ThreadState* enter_thread(CaptureState& capture) noexcept {
  pthread_once(&g_key_once, make_key);
  ThreadState* state = t_state != nullptr ? t_state : take_state();
  if (state == nullptr) return nullptr;
  state->generation = kNoGeneration;
  state->depth = state->overflow = state->arena_used = state->open_modules = 0;
  state->charged = SpanRef{};
  state->drives_steps = false;
  state->compiled_lookup = false;
  state->torch_thread = 0;
  state->capture = &capture;
  state->clock.reset(capture.clock);
  state->storage_numbers = state->tensor_numbers = NumberRange{};
  for (NameCacheEntry& entry : state->names) {
    if (entry.pointer != nullptr) entry.pointer = nullptr;  // a page that was never used stays so
  }
  if (!take_ring(capture, *state)) {
    capture.memory.rings[0].dropped[static_cast<std::uint32_t>(DropCause::kNoRing)].fetch_add(1);
    if (t_state == nullptr) {
      lock_free_list();
      state->next_free = g_free_states;
      g_free_states = state;
      unlock_free_list();
    }
    return nullptr;
  }
  t_state = state;
  state->in_use.store(true, std::memory_order_release);
  pthread_setspecific(g_thread_end_key, state);
  return state;
}

}  // namespace

ThreadState* Callback::enter_first() noexcept {
  if (!g_capturing.load(std::memory_order_acquire)) return nullptr;
  const std::uint32_t generation = g_generation.load(std::memory_order_relaxed);
  ThreadState* state = t_state;
  if (state != nullptr && state->busy.load(std::memory_order_relaxed) != 0) return nullptr;
  if (state == nullptr || state->generation != generation) {
    CaptureState* capture = g_capture.load(std::memory_order_acquire);
    if (capture == nullptr) return nullptr;
    state = enter_thread(*capture);
    if (state == nullptr) return nullptr;
    state->generation = generation;
  }
  // As in `enter`, with a barrier of our own.
  state->busy.store(1, std::memory_order_seq_cst);
  if (g_capturing.load(std::memory_order_seq_cst) &&
      g_generation.load(std::memory_order_seq_cst) == state->generation) {
    return state;
  }
  state->busy.store(0, std::memory_order_release);
  return nullptr;
}

namespace {

// Linux: all running threads of this process pass a full barrier before this returns. Numbers of
// linux/membarrier.h (MEMBARRIER_CMD_…PRIVATE_EXPEDITED), which old kernel headers lack.
constexpr int kBarrier = 1 << 3, kRegister = 1 << 4;
bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

void CaptureState::give_back() noexcept {
  memory.give_back();
  strings.clear();
  blocks.clear();
  tensors.clear();
}

void CaptureState::reset() noexcept {
  memory.begin_again();
  steps.reset();
  for (std::atomic<const void*>& key : orphans.keys) key.store(nullptr, std::memory_order_relaxed);
  orphans.waiting.store(0, std::memory_order_relaxed);
  for (std::atomic<std::uint64_t>& slot : torch_threads.slots) slot.store(0, std::memory_order_relaxed);
  gradients_read = 0;
  gradients_pending = false;
  plan = StepPlan{};
  stop_ns.store(0, std::memory_order_relaxed);
  clock_zero_ns = memory.header->clock_zero_ns;
}

void arm_capture(CaptureState* capture) noexcept {
  capture->clock.begin(capture->clock_zero_ns);
  g_window_ns.store(kNoWindow, std::memory_order_relaxed);
  g_capture.store(capture, std::memory_order_release);
  g_generation.fetch_add(1, std::memory_order_acq_rel);
  g_capturing.store(true, std::memory_order_seq_cst);
}

bool register_barriers() noexcept { return membarrier(kRegister); }

void use_barriers() noexcept {
  if (!g_capturing.load(std::memory_order_seq_cst)) return;
  g_open_generation.store(g_generation.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  // A step's end may just have closed the window, on a thread of the job.
  if (!g_capturing.load(std::memory_order_seq_cst)) g_open_generation.store(0, std::memory_order_seq_cst);
}

void open_window(CaptureState* capture, std::uint64_t window_ns) noexcept {
  if (g_capture.load(std::memory_order_relaxed) != capture || !g_capturing.load(std::memory_order_relaxed)) {
    arm_capture(capture);
  }
  std::uint64_t none = kNoWindow;
  g_window_ns.compare_exchange_strong(none, window_ns, std::memory_order_acq_rel);
}

bool open_window_at_step(CaptureState& capture, ThreadState& state, std::uint64_t now_ns) noexcept {
  if (window_is_open()) return false;
  // Counts of what was not written because the window was not open are nobody's business.
  for (const Counter code : {Counter::kBeforeWindow, Counter::kStepBordersSkipped, Counter::kCompiledRegions,
                             Counter::kScriptFunctions, Counter::kOrphanEnds}) {
    capture.memory.header->counters[static_cast<std::size_t>(code)].store(0, std::memory_order_relaxed);
  }
  try {
    const std::string line = window_line(now_ns);
    const auto bytes = static_cast<std::uint32_t>(round_up_8(sizeof(LineRecord) + line.size()));
    unsigned char* room = state.ring.reserve(bytes);
    if (room == nullptr) return false;
    write_line_record(room, bytes, line, state.in_order(now_ns));
    state.ring.commit(bytes);
  } catch (...) {
    return false;  // no memory for a line: the next border may have it
  }
  // After the commit: who reads the rings because the window is open finds the window's span.
  std::uint64_t none = kNoWindow;
  return g_window_ns.compare_exchange_strong(none, now_ns, std::memory_order_acq_rel);
}

void stop_at_step(CaptureState& capture, std::uint64_t now_ns) noexcept {
  std::uint64_t none = 0;
  capture.stop_ns.compare_exchange_strong(none, now_ns, std::memory_order_acq_rel);
  capture.memory.wait_for_room.store(false, std::memory_order_release);
  g_capturing.store(false, std::memory_order_seq_cst);
  g_open_generation.store(0, std::memory_order_seq_cst);
}

std::uint64_t close_window(CaptureState* capture, std::uint64_t patience_ns, bool* quiet) noexcept {
  capture->memory.wait_for_room.store(false, std::memory_order_release);  // nobody drains meanwhile
  g_capturing.store(false, std::memory_order_seq_cst);
  g_open_generation.store(0, std::memory_order_seq_cst);
  membarrier(kBarrier);  // fails where nobody counts on it
  const std::uint32_t generation = g_generation.load(std::memory_order_relaxed);
  const std::uint64_t give_up = monotonic_ns() + patience_ns;
  for (ThreadState* state = g_states.load(std::memory_order_acquire); state != nullptr; state = state->next) {
    while (state != t_state && state->busy.load(std::memory_order_seq_cst) != 0 && monotonic_ns() < give_up) {
      const timespec pause{0, 20000};
      nanosleep(&pause, nullptr);
    }
  }
  // A step's end closed it: there, or where the last thread that was inside a callback then wrote. A thread's
  // clock may be ahead of ours by its error.
  std::uint64_t end = capture->stop_ns.load(std::memory_order_acquire);
  if (end == 0) end = capture->now();
  const auto is_ours = [&](const ThreadState& state) {
    return state.generation == generation && state.in_use.load(std::memory_order_acquire);
  };
  for (ThreadState* state = g_states.load(std::memory_order_acquire); state != nullptr; state = state->next) {
    if (!is_ours(*state)) continue;
    end = std::max(end, state->clock.last());
  }
  if (quiet != nullptr) *quiet = true;
  for (ThreadState* state = g_states.load(std::memory_order_acquire); state != nullptr; state = state->next) {
    const bool busy = state != t_state && state->busy.load(std::memory_order_seq_cst) != 0;
    if (busy && quiet != nullptr) *quiet = false;
    if (busy || !is_ours(*state)) continue;  // stays open: never torn
    cut_frames(*state, end, kSpanCut);
  }
  return end;
}

void leave_parent() noexcept {
  g_capturing.store(false, std::memory_order_seq_cst);
  g_open_generation.store(0, std::memory_order_seq_cst);
  g_capture.store(nullptr, std::memory_order_release);
  g_generation.fetch_add(1, std::memory_order_acq_rel);
  t_state = nullptr;  // its stack is the parent's; the other threads do not exist here
  g_states.store(nullptr, std::memory_order_relaxed);
  g_free_states = nullptr;
  g_free_lock.clear();
  notes_after_fork();
}

bool capturing() noexcept { return g_capturing.load(std::memory_order_relaxed); }

std::uint32_t session_generation() noexcept { return g_generation.load(std::memory_order_relaxed); }

StrRef intern(std::string_view text) noexcept {
  Callback callback;
  if (!callback) return kStrNone;
  return callback.capture().strings.find_or_add(text);
}

std::uint32_t evidence_generation() noexcept {
  return session_generation() << 1 | (window_is_open() ? 1 : 0);
}

void count(std::uint32_t counter, std::uint64_t add) noexcept {
  if (CaptureState* capture = g_capture.load(std::memory_order_acquire)) {
    capture->memory.count(static_cast<Counter>(counter), add);
  }
}

namespace {

// The inferred call of an unseen root, when one is open on this thread.
Frame* open_unseen_root(ThreadState& state) noexcept {
  for (std::uint32_t i = state.depth; i-- > 0;) {
    if (state.frames[i].type == FrameType::kUnseenRoot && !state.frames[i].ended) return &state.frames[i];
  }
  return nullptr;
}

void end_unseen_root(ThreadState& state, std::uint64_t now) noexcept {
  if (Frame* root = open_unseen_root(state)) end_frame(state, *root, now);
}

void enter_unseen_root(CaptureState& capture, ThreadState& state, const ModuleCall& call,
                       std::uint64_t now) noexcept {
  Frame* root = open_unseen_root(state);
  if (root != nullptr && root->key == call.unseen_root && root->who != call.module) return;
  if (root != nullptr) end_frame(state, *root, now);  // its first child comes again, or another root's child
  step_root_begins(capture, state, call.unseen_root, now);
  Frame* frame = push_frame(state, FrameType::kUnseenRoot, call.unseen_root, now);
  if (frame == nullptr) return;
  frame->name = call.unseen_root_name;
  frame->detail = call.unseen_root_name;
  frame->who = call.module;
  frame->span_flags = kSpanInferred;
  frame->grad = g_grad_enabled == nullptr || g_grad_enabled();
  frame->step = StepCode::kForward;
  store_frame(state, state.depth - 1, now);
}

}  // namespace

void module_enter(const ModuleCall& call) noexcept {
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  const std::uint64_t now = state.now();
  bool is_root = false;
  if (state.open_modules == 0) {
    if (call.unseen_root != nullptr) {
      enter_unseen_root(capture, state, call, now);
    } else {
      end_unseen_root(state, now);
      step_root_begins(capture, state, call.module, now);
      is_root = true;
    }
  }
  Frame* frame = push_frame(state, FrameType::kModule, call.module, now);
  if (frame == nullptr) return;
  frame->name = call.path;
  frame->detail = call.type;
  frame->call_index = call.call_index;
  frame->span_flags = kSpanHasCall;
  frame->forward_thread = call.number;
  frame->modes = call.modes;
  frame->tails = call.tails;
  if (is_root) {
    frame->step = StepCode::kForward;
    frame->grad = g_grad_enabled == nullptr || g_grad_enabled();
    if (g_thread_modes != nullptr) frame->modes |= kModeThreadKnown | g_thread_modes();
  }
  ++state.open_modules;
  store_frame(state, state.depth - 1, now, {}, {call.tail, call.tail_bytes});
}

namespace {

// The result goes into the arena, behind what the frame has there; frames above would be in the way.
void keep_result(ThreadState& state, Frame& frame, const ModuleResult& result) noexcept {
  if (frame.type != FrameType::kModule) return;
  if (result.failed) frame.op_flags |= kSpanFailed;
  const bool fits = &frame == state.top() && kArenaBytes - state.arena_used >= result.output_bytes;
  if (result.output_cut || (result.output_bytes != 0 && !fits)) frame.op_flags |= kSpanOutputCut;
  if (result.output_bytes == 0 || !fits) return;
  std::memcpy(state.arena + state.arena_used, result.output, result.output_bytes);
  frame.outputs_bytes = result.output_bytes;
  state.arena_used += result.output_bytes;
}

}  // namespace

void module_leave(const void* module, const ModuleResult& result) noexcept {
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  if (Frame* frame = find_frame(state, module)) {
    keep_result(state, *frame, result);
    end_frame(state, *frame, state.now());
  } else if (state.overflow != 0) {
    --state.overflow;
  }
}

std::string_view interned_text(StrRef ref) noexcept {
  Callback callback;
  if (!callback || ref == kStrNone || ref == kStrInline) return {};
  return callback.capture().strings.text(ref);
}

std::uint64_t next_module_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool read_tensor(const void* impl, TensorFacts& facts) noexcept {
  Callback callback;
  return callback && g_tensor_facts != nullptr && g_tensor_facts(callback.capture(), impl, facts);
}

void note_module_tensor(std::uint64_t module, std::string_view label, const void* impl, bool is_buffer,
                        FactBytes module_facts) noexcept {
  Callback callback;
  TensorFacts facts;
  if (!callback || g_tensor_facts == nullptr || !g_tensor_facts(callback.capture(), impl, facts)) return;
  write_tensor(callback.capture(), callback.state(), label, facts,
               is_buffer ? CategoryCode::kOther : CategoryCode::kParameter,
               is_buffer ? "buffer" : "parameter", module, module_facts);
}

bool inside_module() noexcept {
  Callback callback;
  return callback && callback.state().open_modules != 0;
}

void phase_enter(StrRef name, StepCode step, const void* who) noexcept {
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  const std::uint64_t now = state.now();
  if (state.open_modules == 0) end_unseen_root(state, now);
  if (step == StepCode::kOptimizer) {
    step_optimizer_begins(capture, state, now);
  } else if (state.depth == 0 || !capture.steps.open) {
    step_work_begins(capture, state, now, false);
  }
  Frame* frame = push_frame(state, FrameType::kPhase, who, now);
  if (frame == nullptr) return;
  frame->name = name;
  frame->who = who;
  frame->step = step;
  store_frame(state, state.depth - 1, now);
}

void phase_leave(const void* who) noexcept { module_leave(who); }

void note_zero_grad(const void*) noexcept {
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  const std::uint64_t now = state.now();
  if (state.open_modules == 0) end_unseen_root(state, now);
  step_work_begins(capture, state, now, false);
  if (state.drives_steps) capture.steps.optimizer_known = true;
}

}  // namespace tensortap::probe
