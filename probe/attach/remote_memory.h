// Another process's memory, read and written through /proc/PID/mem: no stop is needed, and what the process
// protects against itself is no obstacle.
//
// Opening it asks the kernel the same question as a debugger's attach does (uid, capabilities, yama,
// dumpable). Thread rules: none of its own. Errors: a short or refused transfer is false.
//
//   auto memory = RemoteMemory::open(pid);
//   std::uint32_t word;
//   if (memory && memory->get(address, word)) …
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "probe/launch/fd.h"

namespace tensortap::probe {

class RemoteMemory {
 public:
  // nullopt: refused; errno says how.
  static std::optional<RemoteMemory> open(pid_t pid);

  bool read(std::uint64_t address, void* out, std::size_t size) const;
  bool write(std::uint64_t address, const void* data, std::size_t size) const;

  template <class T>
  bool get(std::uint64_t address, T& out) const {
    return read(address, &out, sizeof out);
  }

 private:
  explicit RemoteMemory(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace tensortap::probe
