// The thread that takes the GIL (architecture.md §3): waits for torch, puts the wrapper in place or takes it
// out, ends.
//
// Plain C frames from the thread's start to each call into the interpreter: Python may end the thread at exit
// by forced unwinding. Every symbol is resolved before the GIL is taken; under it nothing is loaded or
// imported, only looked up.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "format/ring_layout.h"
#include "probe/core/capture.h"
#include "probe/python/interpreter.h"
#include "probe/python/module_call.h"
#include "probe/python/module_calls.h"
#include "probe/python/process_group.h"
#include "probe/python/python_hooks.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

enum class Outcome { kNotYet, kDone, kFailed };

constexpr long kFastPollNs = 2'000'000;  // an import of torch takes seconds: seen within a few milliseconds
constexpr long kSlowPollNs = 20'000'000;
constexpr time_t kFastSeconds = 10;
constexpr time_t kGiveUpSeconds = 600;

enum class Goal { kNone, kIn, kOut };
std::atomic<Goal> goal{Goal::kNone};
std::atomic<int> thread_of_pid{0};  // the process whose thread is at work; 0 = none
std::atomic<bool> installed{false};

// The last wrapper that was made: ours, used again while the class still has the function that it wraps. With
// the GIL.
PyObject* kept_wrapper = nullptr;

// The namespace of sys.modules[name], borrowed; null when it isn't there. Runs no code: no module-level
// __getattr__.
PyObject* module_namespace(const char* name) {
  PyObject* modules = py.ImportGetModuleDict();
  PyObject* module = modules ? py.DictGetItemString(modules, name) : nullptr;
  PyObject* names = module ? py.ModuleGetDict(module) : nullptr;
  if (!names) py.ErrClear();
  return names;
}

bool text_starts_with(PyObject* text, const char* prefix) {
  const char* utf8 = text ? py.UnicodeAsUtf8(text, nullptr) : nullptr;
  if (!utf8) py.ErrClear();
  return utf8 && std::strncmp(utf8, prefix, std::strlen(prefix)) == 0;
}

// Is the module with this namespace still running its own code (importlib says so in __spec__)?
bool still_importing(PyObject* names) {
  PyObject* spec = py.DictGetItemString(names, "__spec__");
  PyObject* flag = spec ? py_attribute(spec, "_initializing") : nullptr;
  const bool importing = flag && py.LongAsLong(flag) == 1;
  if (flag) {
    py.ErrClear();
    py.DecRef(flag);
  }
  return importing;
}

// The function by which Dynamo knows that it traces: borrowed in *function; None for torch 1.x, which has no
// Dynamo that we support. kNotYet while torch is still importing: the wrapper must have it from its first
// call on, since a value that changes later would cost a recompile.
Outcome find_compiling(PyObject* torch, PyObject** function) {
  *function = py.none;
  if (text_starts_with(py.DictGetItemString(torch, "__version__"), "1.")) return Outcome::kDone;
  if (PyObject* compiler = module_namespace("torch.compiler")) {
    *function = py.DictGetItemString(compiler, "is_dynamo_compiling");
    if (!*function) *function = py.DictGetItemString(compiler, "is_compiling");  // 2.1, 2.2
    if (*function) return Outcome::kDone;
  }
  return still_importing(torch) ? Outcome::kNotYet : Outcome::kFailed;
}

// Runs the wrapper's source in a dictionary of its own and calls its make(). New reference, or null.
PyObject* make_wrapper(PyObject* original, PyObject* compiling) {
  ModuleCallFunctions functions = {nullptr, nullptr, nullptr};
  if (!module_call_functions(&functions)) return nullptr;
  PyObject* code = py.CompileString(kModuleCallSource, "<tensortap importlib _bootstrap>", kFileInput);
  PyObject* names = code ? py.DictNew() : nullptr;
  PyObject* wrapper = nullptr;
  // Up to 3.9 a namespace without __builtins__ gets an empty one.
  if (names && py.DictSetItemString(names, "__builtins__", py.EvalGetBuiltins()) == 0) {
    PyObject* result = py.EvalCode(code, names, names);
    PyObject* make = result ? py.DictGetItemString(names, "make") : nullptr;
    if (make) {
      wrapper = py.ObjectCall(make, original, compiling, functions.enter, functions.leave, functions.failed,
                              static_cast<PyObject*>(nullptr));
    }
    if (result) py.DecRef(result);
  }
  if (names) py.DecRef(names);
  if (code) py.DecRef(code);
  py.DecRef(functions.enter);
  py.DecRef(functions.leave);
  py.DecRef(functions.failed);
  return wrapper;
}

// Dynamo takes a short cut past Module.__call__ when it is the function that Dynamo found when it was
// imported. If it was before us, it must know ours as that function, else it would trace (and show in its
// errors) a longer way.
void tell_dynamo(PyObject* original, PyObject* wrapper) {
  static const char* const kHolders[] = {"torch._dynamo.utils", "torch._dynamo.variables.nn_module"};
  for (const char* holder : kHolders) {
    PyObject* names = module_namespace(holder);
    if (!names || py.DictGetItemString(names, "unpatched_nn_module_call") != original) continue;
    if (py.DictSetItemString(names, "unpatched_nn_module_call", wrapper) != 0) py.ErrClear();
  }
}

// A new reference, or null.
PyObject* wrapper_of(PyObject* original, PyObject* compiling) {
  if (kept_wrapper) {
    PyObject* wrapped = py_attribute(kept_wrapper, "__wrapped__");
    if (wrapped) py.DecRef(wrapped);
    if (wrapped == original) {
      py.IncRef(kept_wrapper);
      return kept_wrapper;
    }
  }
  PyObject* wrapper = make_wrapper(original, compiling);
  PyObject* code = wrapper ? py_attribute(wrapper, "__code__") : nullptr;
  if (!code) {
    if (wrapper) py.DecRef(wrapper);
    return nullptr;
  }
  module_calls_set_code(code);
  py.DecRef(code);
  if (kept_wrapper) py.DecRef(kept_wrapper);
  kept_wrapper = wrapper;
  py.IncRef(wrapper);
  return wrapper;
}

Outcome replace_call(PyObject* module_class, PyObject* compiling) {
  PyObject* original = py_attribute(module_class, "__call__");
  PyObject* wrapper = original ? wrapper_of(original, compiling) : nullptr;
  Outcome outcome = Outcome::kFailed;
  if (wrapper && py.ObjectSetAttrString(module_class, "__call__", wrapper) == 0) {
    tell_dynamo(original, wrapper);
    outcome = Outcome::kDone;
  }
  py.ErrClear();
  if (wrapper) py.DecRef(wrapper);
  if (original) py.DecRef(original);
  return outcome;
}

// torch.nn.Module, borrowed; null while it is not there.
PyObject* find_module_class() {
  PyObject* names = module_namespace("torch.nn.modules.module");
  return names ? py.DictGetItemString(names, "Module") : nullptr;
}

// With the GIL.
Outcome try_install() {
  PyObject* torch = module_namespace("torch");
  PyObject* module_class = torch ? find_module_class() : nullptr;
  if (!module_class || !python_tensor_prepare(torch, module_namespace("torch.nn.parameter"))) {
    return Outcome::kNotYet;
  }
  PyObject* compiling = nullptr;
  const Outcome ready = find_compiling(torch, &compiling);
  return ready == Outcome::kDone ? replace_call(module_class, compiling) : ready;
}

// With the GIL. Somebody who wrapped our wrapper keeps it: then it stays, and asks at each call whether
// anything is captured.
Outcome try_remove() {
  PyObject* module_class = find_module_class();
  PyObject* call = module_class ? py_attribute(module_class, "__call__") : nullptr;
  PyObject* original = call && call == kept_wrapper ? py_attribute(call, "__wrapped__") : nullptr;
  Outcome outcome = Outcome::kFailed;
  if (original && py.ObjectSetAttrString(module_class, "__call__", original) == 0) {
    tell_dynamo(call, original);
    outcome = Outcome::kDone;
  }
  py.ErrClear();
  if (original) py.DecRef(original);
  if (call) py.DecRef(call);
  return outcome;
}

long seconds_since(const timespec* start) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec - start->tv_sec;
}

Outcome look_once(Goal wanted) {
  if (!interpreter_usable()) return Outcome::kNotYet;
  const int state = py.GilEnsure();
  // A collection of garbage would run the job's finalizers on this thread.
  const bool collecting = py.GcDisable && py.GcEnable && py.GcDisable() == 1;
  const Outcome outcome = wanted == Goal::kIn ? try_install() : try_remove();
  if (outcome == Outcome::kDone) python_look_up_group();
  if (collecting) py.GcEnable();
  py.GilRelease(state);
  return outcome;
}

bool is_reached(Goal wanted) { return wanted == Goal::kNone || (wanted == Goal::kIn) == installed; }

void count_hooks(bool in_place) {
  count(static_cast<std::uint32_t>(in_place ? format::Counter::kPythonHooks
                                            : format::Counter::kPythonHooksFailed));
}

// Works towards the goal, which may change meanwhile.
void work_towards_goal() {
  timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (Goal wanted = goal; !is_reached(wanted); wanted = goal) {
    const Outcome outcome = look_once(wanted);
    const long seconds = seconds_since(&start);
    if (outcome == Outcome::kDone) {
      installed = wanted == Goal::kIn;
      if (installed) count_hooks(true);
    } else if (outcome == Outcome::kFailed || seconds >= kGiveUpSeconds) {
      if (wanted == Goal::kIn) count_hooks(false);
      goal.compare_exchange_strong(wanted, Goal::kNone);
    } else {
      const timespec pause = {0, seconds < kFastSeconds ? kFastPollNs : kSlowPollNs};
      nanosleep(&pause, nullptr);
    }
  }
}

extern "C" void* tensortap_python_thread(void*) {
  const int pid = static_cast<int>(getpid());
  for (;;) {
    work_towards_goal();
    thread_of_pid = 0;
    // Whoever set another goal just now saw a thread at work, and left it to it.
    int none = 0;
    if (is_reached(goal) || !thread_of_pid.compare_exchange_strong(none, pid)) return nullptr;
  }
}

// Detached, every signal blocked: the job's handlers stay on the job's threads.
bool start_thread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, tensortap_python_thread, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

namespace {

// False: this process can have no thread.
bool ensure_thread() noexcept {
  const int pid = static_cast<int>(getpid());
  if (thread_of_pid.exchange(pid) == pid) return true;  // a child inherits another process's number
  if (start_thread()) return true;
  thread_of_pid = 0;
  return false;
}

}  // namespace

void python_hooks_start() noexcept {
  if (interpreter_absent()) return;
  goal = Goal::kIn;
  if (installed) return count_hooks(true);
  const bool usable = interpreter_load() && !std::strstr(py.GetVersion(), "free-threading");
  if (!usable || !ensure_thread()) count_hooks(false);
}

void python_hooks_stop() noexcept {
  if (goal == Goal::kNone) return;
  goal = Goal::kOut;
  if (installed) ensure_thread();
}

}  // namespace tensortap::probe
