#include "probe/torch/observer.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <cstring>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "probe/core/capture.h"
#include "probe/core/capture_state.h"
#include "probe/core/gradients.h"
#include "probe/core/values.h"
#include "probe/python/gradients.h"
#include "probe/python/python_hooks.h"
#include "probe/torch/operator_values.h"

namespace tensortap::probe {

using namespace format;

namespace {

// A range that may end on another thread brings its start along.
struct AsyncRange final : at::ObserverContext {
  std::uint64_t start_ns = 0;
  std::uint32_t generation = 0;
  std::uint32_t thread = 0;
  StrRef name = kStrNone;
  std::string text;  // with kStrInline
};

constexpr const char* kOptimizerStep = "Optimizer.step#";

bool starts_with(const char* text, const char* prefix) noexcept {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// A stack-based call hands over the interpreter's whole stack: the operator's own values are the last ones.
template <class Values>
c10::ArrayRef<const c10::IValue> own_values(const Values& all, std::size_t own) {
  const std::size_t size = all.size();
  const std::size_t kept = own < size ? own : size;
  return c10::ArrayRef<const c10::IValue>(all.data() + (size - kept), kept);
}

__attribute__((noinline)) NameCacheEntry& learn(CaptureState& capture, ThreadState& state,
                                                const at::RecordFunction& fn, const char* name) {
  const std::uint32_t home = name_cache_home(name);
  if (state.names[home].pointer != nullptr) state.names[home + 1] = state.names[home];
  NameCacheEntry& entry = state.names[home];
  entry = NameCacheEntry{};
  entry.name = capture.strings.find_or_add(name);
  if (const auto schema = fn.operator_schema()) {
    entry.is_operator = true;
    entry.overload = capture.strings.find_or_add(schema->overload_name());
    entry.arguments = static_cast<std::uint16_t>(schema->arguments().size());
    entry.returns = static_cast<std::uint8_t>(schema->returns().size());
  }
  if (entry.name != kStrInline) entry.remember(name);
  return entry;
}

// What a name of any scope but the user's is.
inline NameCacheEntry& resolve(CaptureState& capture, ThreadState& state, const at::RecordFunction& fn,
                               const char* name) {
  const std::uint32_t home = name_cache_home(name);
  for (std::uint32_t way = 0; way < 2; ++way) {
    NameCacheEntry& entry = state.names[home + way];
    if (entry.pointer == name &&
        (entry.words != 0 ? entry.is_same() : capture.strings.text(entry.name) == name))
      return entry;
  }
  return learn(capture, state, fn, name);
}

// A call into code of torch.compile shows as a look-up in Dynamo's cache, as a range of the region, or as
// both (2.15: the look-up alone, unless a profiler runs; the first call of a function makes none).
void note_compiled(CaptureState& capture, ThreadState& state, const char* name) noexcept {
  const bool lookup = starts_with(name, "TorchDynamo Cache Lookup");
  if (!lookup && !starts_with(name, "Torch-Compiled Region")) return;
  if (lookup || !state.compiled_lookup) capture.memory.count(Counter::kCompiledRegions);
  state.compiled_lookup = lookup;
}

// Ends that came from other threads, for the range on top of this one's stack.
__attribute__((noinline)) void reap_orphans(CaptureState& capture, ThreadState& state) noexcept {
  while (capture.orphans.waiting.load(std::memory_order_acquire) != 0) {
    Frame* top = state.top();
    if (top == nullptr || (top->type != FrameType::kRange && top->type != FrameType::kScript)) return;
    const std::uint64_t ended = capture.orphans.take(top->key);
    if (ended == 0) return;
    end_frame(state, *top, ended > top->start_ns ? ended : top->start_ns);
  }
}

inline void begin_operator(CaptureState& capture, ThreadState& state, const at::RecordFunction& fn,
                           const NameCacheEntry& name, std::uint64_t now) noexcept {
  Frame* frame = push_frame(state, FrameType::kOp, &fn, now);
  if (frame == nullptr) return;
  frame->name = name.name;
  frame->detail = name.overload;
  frame->call_index = name.returns;  // for its end
  frame->scope = static_cast<std::uint8_t>(fn.scope());
  frame->seq = fn.seqNr();
  const std::uint32_t room = kArenaBytes - state.arena_used;
  const auto items = own_values(fn.inputs(), name.arguments);
  const EncodedValues values =
      encode_values(capture, state, state.arena + state.arena_used, room < kInputBytes ? room : kInputBytes,
                    items.data(), items.size());
  frame->inputs = values.count;
  frame->inputs_bytes = values.bytes;
  state.arena_used += values.bytes;
  if (__builtin_expect(values.cut, 0)) {
    frame->op_flags |= kOpInputsCut;
    capture.memory.count(Counter::kInputsCut);
  }
}

void begin_node(CaptureState& capture, ThreadState& state, const at::RecordFunction& fn, StrRef name,
                bool backward, std::uint64_t now) noexcept {
  Frame* frame = push_frame(state, FrameType::kNode, &fn, now);
  if (frame == nullptr) return;
  frame->name = name;
  frame->scope = static_cast<std::uint8_t>(fn.scope());
  if (backward) frame->step = StepCode::kBackward;
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    frame->seq = fn.seqNr();
    frame->forward_thread = capture.torch_threads.find(fn.forwardThreadId());
  }
}

// `who`: the optimizer whose step it is, when it is known.
void begin_range(CaptureState& capture, ThreadState& state, const at::RecordFunction& fn, const char* name,
                 const void* who, std::uint64_t now) noexcept {
  StepCode step = StepCode::kNone;
  const StrRef ref = capture.strings.find_or_add(name, StringInterner::Share::kThreeQuarters);
  if (starts_with(name, kOptimizerStep)) {
    if (who == nullptr) who = capture.memory.strings + std::uint64_t{ref} * 8;  // one identity per name
    step = StepCode::kOptimizer;
    step_optimizer_begins(capture, state, now);
  } else if (starts_with(name, "Optimizer.zero_grad#")) {
    step_work_begins(capture, state, now, false);
    if (state.drives_steps) capture.steps.optimizer_known = true;
  } else if (starts_with(name, "enumerate(DataLoader)#")) {
    step_work_begins(capture, state, now, false);
  } else {
    note_compiled(capture, state, name);
  }
  Frame* frame = push_frame(state, FrameType::kRange, &fn, now);
  if (frame == nullptr) return;
  frame->name = ref;
  frame->scope = static_cast<std::uint8_t>(fn.scope());
  frame->step = step;
  frame->who = who;
  store_frame(state, state.depth - 1, now, name);
}

std::unique_ptr<at::ObserverContext> begin_async(CaptureState& capture, ThreadState& state, const char* name,
                                                 std::uint64_t now) {
  auto range = std::make_unique<AsyncRange>();
  range->start_ns = now;
  range->generation = state.generation;
  range->thread = state.thread;
  range->name = capture.strings.find_or_add(name, StringInterner::Share::kThreeQuarters);
  if (range->name == kStrInline) range->text = name;
  return range;
}

// Everything but an operator.
__attribute__((noinline)) std::unique_ptr<at::ObserverContext> begin_other(
    CaptureState& capture, ThreadState& state, const at::RecordFunction& fn, const char* name, StrRef known,
    const void* optimizer, std::uint64_t now) {
  if (fn.scope() == at::RecordScope::USER_SCOPE) {
    if (fn.isAsync()) return begin_async(capture, state, name, now);
    begin_range(capture, state, fn, name, optimizer, now);
  } else if (fn.scope() == at::RecordScope::TORCHSCRIPT_FUNCTION) {
    capture.memory.count(Counter::kScriptFunctions);
    if (Frame* frame = push_frame(state, FrameType::kScript, &fn, now)) {
      frame->name = known;
      frame->scope = static_cast<std::uint8_t>(fn.scope());
    }
  } else {
    note_compiled(capture, state, name);
    begin_node(capture, state, fn, known,
               fn.scope() == at::RecordScope::BACKWARD_FUNCTION || starts_with(name, "autograd::engine::"),
               now);
  }
  return nullptr;
}

// A child of fork opens its session; whose optimizer's step it is, is asked: that takes the GIL, so before
// the callback begins, and where an unwinding by Python's exit may pass.
__attribute__((noinline)) const void* before_callback(const at::RecordFunction& fn, const char* name) {
  if (!g_capturing.load(std::memory_order_relaxed)) {
    if (auto* open = g_open_after_fork.load(std::memory_order_acquire)) open();
  }
  if (fn.scope() != at::RecordScope::USER_SCOPE || !starts_with(name, kOptimizerStep)) return nullptr;
  if (!capturing()) return nullptr;
  const void* optimizer = python_current_optimizer();
  std::uint64_t step = 0;
  if (gradients_due(GradientMoment::kOptimizer, &step)) python_note_gradients(step);
  return optimizer;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  const char* name = fn.name();
  const void* optimizer = nullptr;
  const bool is_range = fn.scope() == at::RecordScope::USER_SCOPE;
  if (__builtin_expect(is_range || !g_capturing.load(std::memory_order_relaxed), 0)) {
    optimizer = before_callback(fn, name);
  }
  Callback callback;
  if (__builtin_expect(!callback, 0)) return nullptr;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  const std::uint64_t now = state.now();
  if (__builtin_expect(state.torch_thread == 0, 0)) {
    state.torch_thread = at::RecordFunction::currentThreadId();
    capture.torch_threads.note(state.torch_thread, state.thread);
  }
  if (__builtin_expect(capture.orphans.waiting.load(std::memory_order_relaxed) != 0, 0)) {
    reap_orphans(capture, state);
  }
  try {
    if (__builtin_expect(is_range, 0)) {
      return begin_other(capture, state, fn, name, kStrNone, optimizer, now);
    }
    if (__builtin_expect(state.drives_steps && !capture.steps.open, 0)) {
      step_work_begins(capture, state, now, true);
    }
    const NameCacheEntry& known = resolve(capture, state, fn, name);
    if (__builtin_expect(!known.is_operator, 0)) {
      return begin_other(capture, state, fn, name, known.name, nullptr, now);
    }
    begin_operator(capture, state, fn, known, now);
  } catch (...) {
    // Out of memory in a copy of a schema: this event is lost, the job is not.
    state.ring.drop(DropCause::kRingFull);
  }
  return nullptr;
}

inline void end_operator(CaptureState& capture, ThreadState& state, Frame& frame,
                         const at::RecordFunction& fn, std::uint64_t now) noexcept {
  // Outputs go behind the inputs; frames above would be in the way (an end out of order has none).
  if (&frame == state.top() && frame.name != kStrInline) {
    const auto& all = fn.outputs();
    const std::uint32_t returns = frame.call_index;
    if (all.size() < returns) frame.op_flags |= kOpFailed;
    const std::uint32_t room = kArenaBytes - state.arena_used;
    const auto items = own_values(all, returns);
    const EncodedValues values =
        encode_values(capture, state, state.arena + state.arena_used,
                      room < kOutputBytes ? room : kOutputBytes, items.data(), items.size());
    frame.outputs = values.count;
    frame.outputs_bytes = values.bytes;
    if (__builtin_expect(values.cut, 0)) capture.memory.count(Counter::kRecordsCut);
    if (!frame.stored) {
      end_leaf(state, frame, now);
      return;
    }
  }
  end_frame(state, frame, now);
}

__attribute__((noinline)) void end_async(ThreadState& state, const at::RecordFunction& fn,
                                         const AsyncRange& range, std::uint64_t now) noexcept {
  if (range.generation != state.generation) return;
  // The start is by another thread's clock.
  write_async_span(state, range.start_ns, now > range.start_ns ? now : range.start_ns, range.thread,
                   range.name, range.text, static_cast<std::uint8_t>(fn.scope()));
}

// Not on top of the stack, or no operator.
__attribute__((noinline)) void end_other(CaptureState& capture, ThreadState& state,
                                         const at::RecordFunction& fn, std::uint64_t now) noexcept {
  if (Frame* frame = find_frame(state, &fn)) {
    if (frame->type == FrameType::kOp) {
      end_operator(capture, state, *frame, fn, now);
    } else {
      end_frame(state, *frame, now);
    }
  } else if (state.overflow != 0) {
    --state.overflow;
  } else if (fn.scope() != at::RecordScope::USER_SCOPE &&
             fn.scope() != at::RecordScope::TORCHSCRIPT_FUNCTION) {
    capture.memory.count(Counter::kBeforeWindow);
  } else if (!capture.orphans.put(&fn, now)) {
    capture.memory.count(Counter::kOrphanEnds);
  }
}

void on_end(const at::RecordFunction& fn, at::ObserverContext* context) {
  Callback callback;
  if (__builtin_expect(!callback, 0)) return;
  ThreadState& state = callback.state();
  const std::uint64_t now = state.now();
  if (__builtin_expect(context != nullptr, 0)) {
    end_async(state, fn, *static_cast<AsyncRange*>(context), now);
    return;
  }
  Frame* frame = state.top();
  if (__builtin_expect(
          frame != nullptr && frame->key == &fn && frame->type == FrameType::kOp && !frame->ended, 1)) {
    end_operator(callback.capture(), state, *frame, fn, now);
  } else {
    end_other(callback.capture(), state, fn, now);
  }
}

// Handles of the two callbacks; 0 = not registered. The session's thread only.
at::CallbackHandle g_ranges = 0;
at::CallbackHandle g_operators = 0;

void add_callback(at::CallbackHandle& handle, std::unordered_set<at::RecordScope> scopes,
                  bool values) noexcept {
  if (handle != 0) return;
  try {
    auto callback = at::RecordFunctionCallback(on_start, on_end).needsInputs(values).needsOutputs(values);
    handle = at::addGlobalCallback(std::move(callback.scopes(scopes)));
  } catch (...) {
  }
}

// An operator that began before still calls on_end: this library is never unmapped.
void remove_callback(at::CallbackHandle& handle) noexcept {
  if (handle == 0) return;
  try {
    at::removeCallback(handle);
    handle = 0;
  } catch (...) {  // out of memory: it stays, and finds nothing to do
  }
}

bool grad_enabled() noexcept { return at::GradMode::is_enabled(); }

}  // namespace

void observer_install_ranges() noexcept {
  g_grad_enabled = grad_enabled;
  add_callback(g_ranges, {at::RecordScope::USER_SCOPE}, false);
}

void observer_install_operators() noexcept {
  add_callback(g_operators,
               {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                at::RecordScope::TORCHSCRIPT_FUNCTION, at::RecordScope::CUSTOM_CLASS},
               true);
}

void observer_remove() noexcept {
  remove_callback(g_operators);
  remove_callback(g_ranges);
}

}  // namespace tensortap::probe
