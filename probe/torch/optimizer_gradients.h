// The gradients of a C++ job (probe/core/gradients.h): of an optimizer's parameters, right before its step;
// in a job without optimizers, of all parameters of the trees of modules that were seen in this capture, at
// the end of a backward pass. A parameter is named by its module's path when that module was seen, else by
// its place in the optimizer (`param#3`), which is counted (parameter_unnamed).
#pragma once

#include <cstdint>

namespace torch {
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace tensortap::probe {

void note_optimizer_gradients(const torch::optim::Optimizer& optimizer, std::uint64_t step) noexcept;
void note_model_gradients(std::uint64_t step) noexcept;

}  // namespace tensortap::probe
