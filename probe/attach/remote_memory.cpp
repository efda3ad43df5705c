#include "probe/attach/remote_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace tensortap::probe {

std::optional<RemoteMemory> RemoteMemory::open(pid_t pid) {
  Fd fd(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return std::nullopt;
  return RemoteMemory(std::move(fd));
}

bool RemoteMemory::read(std::uint64_t address, void* out, std::size_t size) const {
  return ::pread(fd_.get(), out, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
}

bool RemoteMemory::write(std::uint64_t address, const void* data, std::size_t size) const {
  return ::pwrite(fd_.get(), data, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
}

}  // namespace tensortap::probe
