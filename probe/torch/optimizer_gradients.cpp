#include "probe/torch/optimizer_gradients.h"

#include <torch/optim/optimizer.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "format/ring_layout.h"
#include "probe/core/capture.h"
#include "probe/core/gradients.h"
#include "probe/torch/module_calls.h"
#include "probe/torch/module_tensors.h"

namespace tensortap::probe {

void note_optimizer_gradients(const torch::optim::Optimizer& optimizer, std::uint64_t step) noexcept {
  try {
    const std::string root = "model@" + std::to_string(step);
    std::unordered_set<const void*> seen;
    std::size_t place = 0;
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        ++place;
        if (!parameter.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
        const void* impl = parameter.unsafeGetTensorImpl();
        std::string name = parameter_name(impl);
        if (name.empty()) {
          count(static_cast<std::uint32_t>(format::Counter::kParameterUnnamed));
          name = "param#" + std::to_string(place - 1);
        }
        note_gradient(root, name, impl);
      }
    }
  } catch (...) {
    count(
        static_cast<std::uint32_t>(format::Counter::kGradientNormSkipped));  // out of memory: not all of them
  }
}

void note_model_gradients(std::uint64_t step) noexcept {
  try {
    const std::string root = "model@" + std::to_string(step);
    std::unordered_set<const void*> seen;
    std::unordered_set<std::string> keys;
    for (const std::vector<TreeModule>& tree : reported_trees()) {
      for (const TreeModule& module : tree) {
        for (const HeldTensor& tensor : module.tensors) {
          if (tensor.is_buffer || !seen.insert(tensor.impl).second) continue;
          std::string key = module.path.empty() ? tensor.name : module.path + "." + tensor.name;
          // Of two models with the same names the later one's say whose they are.
          if (!keys.insert(key).second)
            key = tree.front().type_name + "#" + std::to_string(tree.front().number) + "." + key;
          note_gradient(root, key, tensor.impl);
        }
      }
    }
  } catch (...) {
    count(
        static_cast<std::uint32_t>(format::Counter::kGradientNormSkipped));  // out of memory: not all of them
  }
}

}  // namespace tensortap::probe
