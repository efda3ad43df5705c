#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "config.h"

void tt_log(const char* format, ...) {
  if (tt_config.log[0] == '\0') return;
  char line[3 * PATH_MAX];
  int length = snprintf(line, sizeof line, "%d %s: ", (int)getpid(), program_invocation_short_name);
  va_list arguments;
  va_start(arguments, format);
  const int text = vsnprintf(line + length, sizeof line - 1 - (size_t)length, format, arguments);
  va_end(arguments);
  if (text < 0) return;
  length += text;
  if ((size_t)length > sizeof line - 2) length = (int)sizeof line - 2;
  line[length++] = '\n';

  const int fd = open(tt_config.log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
  if (fd < 0) return;
  ssize_t ignored;
  do {
    ignored = write(fd, line, (size_t)length);
  } while (ignored < 0 && errno == EINTR);
  close(fd);
}
