// File access of this folder: a descriptor that closes itself, whole reads and writes, errors with a remedy.
//
// Thread rules: none of its own. Not for the job's process.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "format/result.h"

namespace tensortap::format {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "cannot <what> <path>: <the system's words>; <what to do>". `error_number` is an errno.
Error io_error(std::string_view what, const std::string& path, int error_number);

// Reads until `bytes` are there or the file ends. Returns the bytes read, or -1 with errno.
ssize_t read_at(int fd, void* to, std::size_t bytes, std::uint64_t offset);

// Writes all of `bytes` (one system call unless the kernel stops short). False with errno.
bool write_at(int fd, std::string_view bytes, std::uint64_t offset);

}  // namespace tensortap::format
