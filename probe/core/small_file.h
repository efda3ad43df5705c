// The content of a small file, by system calls: no stdio, which the job may have redirected or locked.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace tensortap::probe {

// "" when it can't be read. At most `most` bytes. May throw bad_alloc.
inline std::string read_small_file(const char* path, std::size_t most = 65536) {
  std::string text;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  while (text.size() < most) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  return text;
}

}  // namespace tensortap::probe
