#include "torch_version.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "small_file.h"

static const char kPrefix[] = "libtorch_cpu.so";

static const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

bool tt_names_torch(const char* path) {
  const char* base = base_name(path);
  if (strncmp(base, kPrefix, sizeof kPrefix - 1) != 0) return false;
  const char next = base[sizeof kPrefix - 1];
  return next == '\0' || next == '.';
}

// "libtorch_cpu.so.1.13" says its version, "libtorch_cpu.so" does not.
static bool version_of_name(const char* name, char* version, size_t size) {
  if (!tt_names_torch(name)) return false;
  const char* rest = base_name(name) + sizeof kPrefix - 1;
  if (rest[0] != '.' || rest[1] < '0' || rest[1] > '9') return false;
  snprintf(version, size, "%s", rest + 1);
  return true;
}

// Copies up to the first character that can't be in a release number: "2.15.0+cu130" gives "2.15.0".
static bool copy_release(const char* text, char* version, size_t size) {
  const size_t length = strspn(text, "0123456789.");
  if (length == 0 || length >= size) return false;
  memcpy(version, text, length);
  version[length] = '\0';
  return true;
}

// The folder above the library's: pip's torch has `version.py` there, an unpacked libtorch `build-version`.
static bool version_beside(const char* path, char* version, size_t size) {
  char file[PATH_MAX + 32];
  char text[4096];
  const int folder = (int)(base_name(path) - path);
  snprintf(file, sizeof file, "%.*s../version.py", folder, path);
  if (tt_read_small_file(file, text, sizeof text)) {
    const char* line = text;
    while (line != NULL && strncmp(line, "__version__", 11) != 0) {
      line = strchr(line, '\n');
      if (line != NULL) ++line;
    }
    const char* quote = line == NULL ? NULL : strpbrk(line, "'\"\n");
    if (quote != NULL && *quote != '\n' && copy_release(quote + 1, version, size)) return true;
  }
  snprintf(file, sizeof file, "%.*s../build-version", folder, path);
  return tt_read_small_file(file, text, sizeof text) && copy_release(text, version, size);
}

void tt_version_of_torch(const char* path, const char* soname, char* version, size_t size) {
  version[0] = '\0';
  if (version_of_name(path, version, size)) return;
  if (version_of_name(soname, version, size)) return;
  if (version_beside(path, version, size)) return;
  char real[PATH_MAX];
  if (realpath(path, real) != NULL && !version_of_name(real, version, size)) {
    version_beside(real, version, size);
  }
}
