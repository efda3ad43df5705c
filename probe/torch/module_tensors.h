// Parameters and buffers of C++ modules: a `tensor` record each, with the module's first call in a capture.
// Only a module that is being called is looked at: it is alive. (A tree's other modules may not be.)
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

void report_module_tensors(const torch::nn::Module& module, const ModuleCall& call) noexcept;
// The full name of a parameter that was reported in this capture; "" when it wasn't. May throw bad_alloc.
std::string parameter_name(const void* impl);

}  // namespace tensortap::probe
