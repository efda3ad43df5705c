// One loaded ELF object as its program headers and dynamic section show it: what is needed to walk its
// relocations and its exported symbols in memory. Nothing is read from the file.
//
//   ElfObject object;
//   if (describe(info, &object)) …   // in a dl_iterate_phdr callback: a description is valid only there
//
// Threads: plain values; the loader's lock, which dl_iterate_phdr holds, keeps the object mapped. It owns
// nothing.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace tensortap::probe {

struct ElfObject {
  std::uintptr_t base = 0;
  const char* name = "";
  const ElfW(Phdr) * headers = nullptr;
  std::size_t header_count = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* sysv_hash = nullptr;
  const ElfW(Rela) * rela = nullptr;
  std::size_t rela_count = 0;
  std::size_t relative_count = 0;  // R_*_RELATIVE entries, which linkers put first
  const ElfW(Rela) * plt = nullptr;
  std::size_t plt_count = 0;
  std::uintptr_t relro_begin = 0;  // whole pages that the loader makes read-only after relocation
  std::uintptr_t relro_end = 0;

  bool contains(std::uintptr_t address) const {
    for (std::size_t i = 0; i < header_count; ++i) {
      if (headers[i].p_type == PT_LOAD && address - base - headers[i].p_vaddr < headers[i].p_memsz)
        return true;
    }
    return false;
  }
  bool contains_writable(std::uintptr_t address) const {
    for (std::size_t i = 0; i < header_count; ++i) {
      const auto& header = headers[i];
      if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0 && header.p_memsz >= sizeof(void*) &&
          address - base - header.p_vaddr <= header.p_memsz - sizeof(void*)) {
        return true;
      }
    }
    return false;
  }
  bool in_relro(std::uintptr_t address) const { return address >= relro_begin && address < relro_end; }
};

// False for an object without dynamic symbols, or whose tables lie outside of it.
bool describe(const dl_phdr_info* info, ElfObject* object) noexcept;

// Calls `visit(name, address, context)` for every function that the loaded object around `inside` exports.
// Names are mangled and live as long as the object. False when there is no such object.
bool for_each_export(const void* inside, void (*visit)(const char* name, void* address, void* context),
                     void* context) noexcept;

// Held around our own walks over the loaded objects: one at a time in the process, and none while the process
// forks. glibc gives the child of a fork no fresh lock for dl_iterate_phdr.
class LoaderWalk {
 public:
  LoaderWalk() noexcept;
  ~LoaderWalk();
  LoaderWalk(const LoaderWalk&) = delete;
  LoaderWalk& operator=(const LoaderWalk&) = delete;
};

std::uintptr_t page_size() noexcept;

}  // namespace tensortap::probe
