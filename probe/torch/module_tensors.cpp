#include "probe/torch/module_tensors.h"

#include <torch/nn/module.h>

#include <mutex>
#include <unordered_map>

#include "probe/core/node_writer.h"
#include "probe/torch/module_calls.h"
#include "probe/torch/module_settings.h"

namespace tensortap::probe {

namespace {

struct Names {
  std::mutex mutex;
  std::uint32_t generation = 0;
  std::unordered_map<const void*, std::string> of_tensor;
};

// Never destroyed: wrappers may run in static destructors of the job.
Names& names() {
  static auto* const all = new Names;
  return *all;
}

void keep_name(const void* impl, const std::string& name) {
  Names& all = names();
  const std::lock_guard<std::mutex> guard(all.mutex);
  if (all.generation != session_generation()) all.of_tensor.clear();
  all.generation = session_generation();
  all.of_tensor[impl] = name;
}

}  // namespace

namespace {

// Of a module in a tree. The facts go with the first tensor that is written.
void report_tree_module(const TreeModule& one) {
  const std::string prefix = one.path.empty() ? std::string() : one.path + ".";
  unsigned char buffer[kNodeBytes];
  NodeWriter writer(buffer, sizeof buffer);
  if (!one.described && !one.tensors.empty()) {
    const auto& module = *static_cast<const torch::nn::Module*>(one.module);
    write_module_settings(writer, module, one.type_name);
  }
  FactBytes facts = {buffer, writer.bytes()};
  for (const HeldTensor& tensor : one.tensors) {
    const std::string label = prefix + tensor.name;
    if (!tensor.is_buffer) keep_name(tensor.impl, label);
    note_module_tensor(one.number, label, tensor.impl, tensor.is_buffer, facts);
    facts = {};
  }
}

// Of a module that is in no tree that could be read.
void report_own(const torch::nn::Module& module, const ModuleCall& call) {
  // A module that stands alone is named by its type and has no path.
  const bool has_path = call.path != call.type;
  const std::string prefix = has_path ? std::string(interned_text(call.path)) + "." : std::string();
  for (const auto& item : module.named_parameters(false)) {
    if (!item.value().defined()) continue;
    const void* impl = item.value().unsafeGetTensorImpl();
    keep_name(impl, prefix + item.key());
    note_module_tensor(call.number, prefix + item.key(), impl, false);
  }
  for (const auto& item : module.named_buffers(false)) {
    if (!item.value().defined()) continue;
    note_module_tensor(call.number, prefix + item.key(), item.value().unsafeGetTensorImpl(), true);
  }
}

}  // namespace

void report_module_tensors(const torch::nn::Module& module, const ModuleCall& call) noexcept {
  try {
    for (const TreeModule& one : take_unreported_tree(&module)) report_tree_module(one);
    if (mark_reported(&module)) report_own(module, call);
  } catch (...) {  // out of memory: the rest is not named
  }
}

std::string parameter_name(const void* impl) {
  Names& all = names();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.of_tensor.find(impl);
  const bool known = found != all.of_tensor.end() && all.generation == session_generation();
  return known ? found->second : std::string();
}

}  // namespace tensortap::probe
