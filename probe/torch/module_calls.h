// What module_enter needs to know of a C++ module that is called: its path, its type, how often it was called
// before, and the root above it whose own forward can't be seen.
//
//   module_constructed(self);                       // a torch::nn::Module constructor ran
//   module_enter(next_module_call(self, &typeid(LinearImpl)));
//
// Threads: any. A call costs a look into a lock-free cache; a lock is taken, and the trees are read
// (module_tree.h), the first time a module is called after any module was constructed. A module that stands
// alone is looked at again on its calls 1, 2, 4, 8, …: it may have been registered under another since, and
// nothing tells of that. Ownership: none of the job's objects.
#pragma once

#include <string_view>

#include "probe/core/capture.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace tensortap::probe {

// Before the first of the others, once. `is_seen(type_info::name())`: is the forward of this type wrapped, so
// that a root of that type shows itself? False when the trees can't be read: calls then have a type and no
// path.
bool module_calls_start(bool (*is_seen)(const char* mangled_type)) noexcept;
// Modules may have come and gone unseen.
void module_calls_invalidate() noexcept;

void module_constructed(const torch::nn::Module* module) noexcept;
// Counts the call. `static_type` names the class when nothing better is known. `undescribed` becomes true
// with the module's first call in a capture: its facts belong to it.
ModuleCall next_module_call(const torch::nn::Module* module, std::string_view static_type,
                            bool* undescribed) noexcept;

}  // namespace tensortap::probe
