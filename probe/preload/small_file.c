#include "small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool tt_read_small_file(const char* path, char* text, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t length = 0;
  bool ok = true;
  while (length < size - 1) {
    const ssize_t got = read(fd, text + length, size - 1 - length);
    if (got == 0) break;
    if (got > 0) {
      length += (size_t)got;
    } else if (errno != EINTR) {
      ok = false;
      break;
    }
  }
  text[length] = '\0';
  close(fd);
  return ok;
}
