// The parameters and buffers that modules hold themselves, also of modules that nobody is calling: read by
// copying, like the trees (module_tree.h), because such a module may be changed by another thread, or be dead
// and not look it. A tensor is only told of when what stands at its address is one now: its vtable lies in a
// loaded object and somebody counts as its owner (a dead one's count is zero, or overwritten by the
// allocator).
//
//   for (const HeldTensor& tensor : lists.read(modules)[0]) …
//
// Threads: one at a time per object. Ownership: none of the job's objects; names are copies. May throw
// bad_alloc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probe/torch/job_memory.h"
#include "probe/torch/self_memory.h"

namespace tensortap::probe {

struct HeldTensor {
  std::string name;  // within its module
  const void* impl = nullptr;
  bool is_buffer = false;
};

class TensorLists {
 public:
  TensorLists();
  // `modules`: addresses of torch::nn::Module. Yields as many lists: parameters, then buffers, in the order
  // of their registration. One that can't be read is empty.
  std::vector<std::vector<HeldTensor>> read(const std::vector<std::uintptr_t>& modules);

 private:
  struct Layout {
    std::size_t parameters, buffers, header_bytes;  // in a Module: where the dictionaries' items are
    ItemLayout item;
  };
  struct List;
  static Layout measure();
  void read_items(std::vector<List>* lists);
  std::vector<bool> are_alive(const std::vector<std::uintptr_t>& tensors);

  const Layout layout_;
  SelfMemory memory_;
  LoadedImages images_;
};

}  // namespace tensortap::probe
