// Reads memory of this process that may be freed, unmapped or being written: what can't be read is said, not
// faulted on. Also: what lies in a loaded object (a vtable, a type_info) and so can be read plainly.
//
//   SelfMemory memory;
//   std::vector<SelfMemory::Piece> pieces = {{address, &copy}};
//   memory.read(&pieces, sizeof copy);
//   if (pieces[0].ok) …
//
// Threads: one at a time per object. It owns copies only. No torch headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

struct dl_phdr_info;

namespace tensortap::probe {

class SelfMemory {
 public:
  struct Piece {
    std::uintptr_t from = 0;
    void* to = nullptr;
    std::size_t bytes = 0;
    bool ok = false;
  };
  // Copies each piece, with one system call for many of them (process_vm_readv, else /proc/self/mem).
  void read(std::vector<Piece>* pieces);

 private:
  bool by_file(Piece* piece);
  bool no_readv_ = false;
};

class LoadedImages {
 public:
  // Follows dlopen and dlclose; cheap when there was none.
  void update();
  bool contains(std::uintptr_t address) const;

 private:
  static int visit(dl_phdr_info* info, std::size_t size, void* data);
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges_;  // begin, end; sorted
  unsigned long long loads_ = 0;
  unsigned long long unloads_ = 0;
  bool stale_ = true;
};

}  // namespace tensortap::probe
