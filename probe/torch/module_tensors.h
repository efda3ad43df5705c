// Parameters and buffers of C++ modules: a `tensor` record each, once in a capture, with the first call of
// any module of the tree, also of those modules whose calls can't be seen. A module that nobody was seen to
// call until then tells its class and settings with its first tensor.
//
// Threads: any. The names are kept, by the tensors' addresses, for whoever meets a parameter later.
#pragma once

#include <string>

#include "probe/core/capture.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace tensortap::probe {

// `module` is being called: with `call`, its first one in this capture.
void report_module_tensors(const torch::nn::Module& module, const ModuleCall& call) noexcept;
// The full name of a parameter that was reported in this capture; "" when it wasn't. May throw bad_alloc.
std::string parameter_name(const void* impl);

}  // namespace tensortap::probe
