#include "backend_cache.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "small_file.h"

static bool fits(int length, size_t size) { return length > 0 && (size_t)length < size; }

bool tt_backend_cache_folder(const char* named, const char* cache_home, const char* library_folder, char* out,
                             size_t size) {
  if (named[0] != '\0') {
    const char* slash = named[strlen(named) - 1] == '/' ? "" : "/";
    return fits(snprintf(out, size, "%s%s", named, slash), size);
  }
  if (cache_home[0] != '/') return false;
  char file[PATH_MAX + 16];
  char key[128];
  snprintf(file, sizeof file, "%sbackend-key", library_folder);
  if (!tt_read_small_file(file, key, sizeof key)) return false;
  key[strcspn(key, "\r\n")] = '\0';
  if (key[0] == '\0' || key[0] == '.' || strchr(key, '/') != NULL) return false;
  return fits(snprintf(out, size, "%s/tensortap/backends/%s/", cache_home, key), size);
}

enum TtCacheState tt_check_backend_cache(const char* folder, uid_t owner) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", folder);
  // Without the slash a symbolic link is seen as one: whoever may put a link there could lead us anywhere.
  for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; --length) path[length - 1] = '\0';
  struct stat status;
  if (lstat(path, &status) != 0) return kTtCacheAbsent;
  const bool ours = S_ISDIR(status.st_mode) && status.st_uid == owner;
  return ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 ? kTtCacheUsable : kTtCacheUnsafe;
}
