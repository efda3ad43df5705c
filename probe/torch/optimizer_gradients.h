// The gradients of a C++ optimizer's parameters, right before its step (probe/core/gradients.h). A parameter
// is named by its module's path when that module was seen, else by its place in the optimizer (`param#3`),
// which is counted (parameter_unnamed).
#pragma once

#include <cstdint>

namespace torch {
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace tensortap::probe {

void note_optimizer_gradients(const torch::optim::Optimizer& optimizer, std::uint64_t step) noexcept;

}  // namespace tensortap::probe
