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

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probe/core/capture.h"
#include "probe/torch/tensor_lists.h"

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

// A module of a tree as it is at this moment, called or not.
struct TreeModule {
  const void* module = nullptr;  // taken for alive: module_tree.h
  std::uint64_t number = 0;
  std::string path;        // "" of a root
  std::string type_name;   // demangled dynamic type
  bool described = false;  // a call has told its facts in this capture
  std::vector<HeldTensor> tensors;
};
// Of the tree that a module is in, the modules that were not marked as reported in this capture; they are
// now. Empty when the module itself was marked, or is in no tree. May throw bad_alloc.
std::vector<TreeModule> take_unreported_tree(const torch::nn::Module* module);
// False: it was marked before in this capture.
bool mark_reported(const torch::nn::Module* module) noexcept;
// The trees that were reported in this capture and are still there, one for each root. May throw bad_alloc.
std::vector<std::vector<TreeModule>> reported_trees();

}  // namespace tensortap::probe
