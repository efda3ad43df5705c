#include "probe/torch/nn_slots.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "probe/core/capture.h"
#include "probe/core/gradients.h"
#include "probe/python/gradients.h"
#include "probe/torch/elf_object.h"
#include "probe/torch/module_calls.h"
#include "probe/torch/module_values.h"
#include "probe/torch/nn_modules.h"
#include "probe/torch/optimizer_gradients.h"
#include "probe/torch/slots.h"

namespace tensortap::probe {
namespace {

using format::StepCode;
using format::StrRef;

// A text that never changes, with its reference in the session's string table.
class CachedText {
 public:
  explicit CachedText(std::string_view text) : text_(text) {}
  StrRef ref() noexcept {
    const std::uint64_t generation = session_generation();
    std::uint64_t cached = cached_.load(std::memory_order_relaxed);
    if (cached >> 32 != generation || static_cast<StrRef>(cached) == format::kStrNone) {
      cached = (generation << 32) | intern(text_);
      cached_.store(cached, std::memory_order_relaxed);
    }
    return static_cast<StrRef>(cached);
  }

 private:
  const std::string_view text_;
  std::atomic<std::uint64_t> cached_{format::kStrNone};
};

// The scopes close on the way of an exception, too.
class ModuleScope {
 public:
  template <class... Args>
  ModuleScope(const torch::nn::Module* module, std::string_view type, const Args&... args) noexcept
      : module_(module), path_(enter_module(module, type, args...)) {}
  ~ModuleScope() {
    if (!left_) module_leave(module_, {nullptr, 0, false, true});  // an exception is on its way
  }
  template <class Result>
  void leave(const Result& result) noexcept {
    left_ = true;
    leave_module(module_, path_, result);
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const void* const module_;
  const StrRef path_;
  bool left_ = false;
};

class PhaseScope {
 public:
  // Without `who` the scope itself is the identity: backward passes nest.
  PhaseScope(StrRef name, StepCode step, const void* who) noexcept : who_(who == nullptr ? this : who) {
    phase_enter(name, step, who_);
  }
  ~PhaseScope() { phase_leave(who_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  const void* const who_;
};

// Reads the gradients of the step when a backward pass has ended well and this is the moment. Not for a pass
// inside another one.
class GradientScope {
 public:
  GradientScope() noexcept : exceptions_(std::uncaught_exceptions()) {}
  ~GradientScope() noexcept(false) {
    std::uint64_t step = 0;
    if (std::uncaught_exceptions() != exceptions_) return;
    if (!gradients_due(GradientMoment::kBackwardEnd, &step)) return;
    if (!python_note_gradients(step)) note_model_gradients(step);
  }
  GradientScope(const GradientScope&) = delete;
  GradientScope& operator=(const GradientScope&) = delete;

 private:
  const int exceptions_;
};

// The wrappers. A member function takes the object as its first argument and is otherwise an ordinary
// function (Itanium C++ ABI); an argument that is passed by value is the caller's temporary, moved from here
// as the callee itself would. `original` is set once, before the first slot is rewritten.
template <class Module, auto kMethod>
struct Forward;
template <class Module, class Class, class Result, class... Args, Result (Class::*kMethod)(Args...)>
struct Forward<Module, kMethod> {
  using Owner = Class;  // where the function is declared: perhaps a base of Module
  static inline Result (*original)(Class*, Args...) = nullptr;
  static inline std::string_view type;
  static Result call(Class* self, Args... args) {
    if (!capturing()) return original(self, std::forward<Args>(args)...);
    ModuleScope scope(self, type, args...);
    Result result = original(self, std::forward<Args>(args)...);
    scope.leave(result);
    return result;
  }
};

template <auto kMethod>
struct Step;
template <class Class, class Result, class... Args, Result (Class::*kMethod)(Args...)>
struct Step<kMethod> {
  static inline Result (*original)(Class*, Args...) = nullptr;
  static inline CachedText* name = nullptr;
  static Result call(Class* self, Args... args) {
    if (!capturing()) return original(self, std::forward<Args>(args)...);
    std::uint64_t step = 0;
    if (gradients_due(GradientMoment::kOptimizer, &step)) note_optimizer_gradients(*self, step);
    const PhaseScope scope(name->ref(), StepCode::kOptimizer,
                           static_cast<const torch::optim::Optimizer*>(self));
    return original(self, std::forward<Args>(args)...);
  }
};

template <auto kMethod>
struct ZeroGrad;
template <class... Args, void (torch::optim::Optimizer::*kMethod)(Args...)>
struct ZeroGrad<kMethod> {
  static inline void (*original)(torch::optim::Optimizer*, Args...) = nullptr;
  static void call(torch::optim::Optimizer* self, Args... args) {
    if (capturing()) note_zero_grad(self);
    original(self, args...);
  }
};

template <auto kMethod>
struct Execute;
template <class Result, class... Args, Result (torch::autograd::Engine::*kMethod)(Args...)>
struct Execute<kMethod> {
  static inline Result (*original)(torch::autograd::Engine*, Args...) = nullptr;
  static inline CachedText* name = nullptr;
  static Result call(torch::autograd::Engine* self, Args... args) {
    if (!capturing()) return original(self, std::forward<Args>(args)...);
    const GradientScope gradients;
    const PhaseScope scope(name->ref(), StepCode::kBackward, nullptr);
    return original(self, std::forward<Args>(args)...);
  }
};

struct Construct {
  static inline void (*original)(torch::nn::Module*) = nullptr;
  static void call(torch::nn::Module* self) {
    original(self);
    module_constructed(self);
  }
};
struct ConstructNamed {
  static inline void (*original)(torch::nn::Module*, std::string) = nullptr;
  static void call(torch::nn::Module* self, std::string name) {
    original(self, std::move(name));
    module_constructed(self);
  }
};

// What to look for among the exports. The key is a mangled name up to the parameters: none of these is
// overloaded.
struct Wrapper {
  void* replacement = nullptr;
  void** original = nullptr;
  const char* module_type = nullptr;  // type_info::name() of the module class
};

struct Table {
  std::unordered_map<std::string, Wrapper> wrappers;
  std::unordered_map<std::string_view, bool> seen_types;
  SlotPatcher calls;
  SlotPatcher constructors;
  bool failed = false;
};

// Never destroyed: threads may be in a wrapper, or in `repatch`, while the process ends.
Table* g_table = nullptr;

template <class Wrap>
Wrapper wrapper(const char* module_type = nullptr) {
  return {reinterpret_cast<void*>(&Wrap::call), reinterpret_cast<void**>(&Wrap::original), module_type};
}

// "_ZN5torch2nn10LinearImpl7forwardE": the mangled class, a nested name without its end, and the method.
template <class Class>
std::string mangled(const char* method) {
  std::string name = typeid(Class).name();
  if (!name.empty()) name.pop_back();
  return "_Z" + name + std::to_string(std::strlen(method)) + method + "E";
}

template <class Module, auto kMethod>
void add_forward(Table* table, std::string_view type) {
  using Wrap = Forward<Module, kMethod>;
  Wrap::type = type;
  table->wrappers[mangled<typename Wrap::Owner>("forward")] = wrapper<Wrap>(typeid(Module).name());
}

template <class Class, auto kMethod>
void add_step(Table* table, std::string_view name) {
  using Wrap = Step<kMethod>;
  Wrap::name = new CachedText(name);
  table->wrappers[mangled<Class>("step")] = wrapper<Wrap>();
}

void fill(Table* table) {
#define X(name) \
  add_forward<torch::nn::name##Impl, &torch::nn::name##Impl::forward>(table, "torch::nn::" #name "Impl");
  TENSORTAP_NN_MODULES(X)
#undef X
#define TENSORTAP_STEP(name) \
  add_step<torch::optim::name, &torch::optim::name::step>(table, "Optimizer.step#" #name ".step")
  TENSORTAP_STEP(SGD);
  TENSORTAP_STEP(Adam);
  TENSORTAP_STEP(AdamW);
  TENSORTAP_STEP(LBFGS);
  TENSORTAP_STEP(Adagrad);
  TENSORTAP_STEP(RMSprop);
#undef TENSORTAP_STEP
  using Backward = Execute<&torch::autograd::Engine::execute>;
  Backward::name = new CachedText("backward");
  table->wrappers[mangled<torch::autograd::Engine>("execute")] = wrapper<Backward>();
  table->wrappers[mangled<torch::optim::Optimizer>("zero_grad")] =
      wrapper<ZeroGrad<&torch::optim::Optimizer::zero_grad>>();
  const std::string module = "_ZN5torch2nn6ModuleC";
  for (const char* variant : {"1", "2"}) {  // of a complete object, of a base: the same function here
    table->wrappers[module + variant + "Ev"] = wrapper<Construct>();
#if _GLIBCXX_USE_CXX11_ABI
    table->wrappers[module + variant + "ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"] =
        wrapper<ConstructNamed>();
#else
    table->wrappers[module + variant + "ESs"] = wrapper<ConstructNamed>();
#endif
  }
}

void take_export(const char* name, void* address, void* context) {
  auto* table = static_cast<Table*>(context);
  if (std::strncmp(name, "_ZN5torch", 9) != 0) return;
  try {
    auto found = table->wrappers.end();
    const bool is_constructor = std::strncmp(name, "_ZN5torch2nn6ModuleC", 20) == 0;
    if (is_constructor) found = table->wrappers.find(name);
    for (const char* method : {"7forwardE", "4stepE", "9zero_gradE", "7executeE"}) {
      if (found != table->wrappers.end()) break;
      const char* at = std::strstr(name, method);
      if (at != nullptr) found = table->wrappers.find(std::string(name, at + std::strlen(method)));
    }
    if (found == table->wrappers.end()) return;
    const Wrapper& wrap = found->second;
    *wrap.original = address;
    SlotPatcher& patcher = is_constructor ? table->constructors : table->calls;
    patcher.add(name, address, wrap.replacement);
    if (wrap.module_type != nullptr) table->seen_types[wrap.module_type] = true;
  } catch (...) {
    table->failed = true;
  }
}

bool is_seen(const char* mangled_type) { return g_table->seen_types.count(mangled_type) != 0; }

Table* make_table() noexcept {
  try {
    auto* table = new Table;
    fill(table);
    // The global context is an object of libtorch_cpu itself: its address leads to the library.
    if (!for_each_export(&at::globalContext(), &take_export, table) || table->failed) return nullptr;
    g_table = table;
    return module_calls_start(&is_seen) ? table : nullptr;
  } catch (...) {
    return nullptr;
  }
}

Table* table() noexcept {
  static Table* const instance = make_table();
  return instance;
}

}  // namespace

void nn_slots_prepare() noexcept {
  if (table() != nullptr) table()->constructors.install();
}

bool nn_slots_install() noexcept {
  if (table() == nullptr) return false;
  module_calls_invalidate();
  const bool constructors = table()->constructors.install();
  return table()->calls.install() || constructors;
}

void nn_slots_remove() noexcept {
  if (table() != nullptr) table()->calls.restore();
}

void nn_slots_repatch() noexcept {
  if (table() == nullptr) return;
  table()->constructors.repatch();
  table()->calls.repatch();
}

}  // namespace tensortap::probe
