// Which libtorch is in this process: the mapped `libtorch_cpu`, found through the loader's list of objects.
//
// Threads: any. `tt_find_torch` takes only the loader's list lock (dl_iterate_phdr) and allocates nothing;
// `tt_describe_torch` reads small files and is for the arming thread.
// Ownership: everything is copied into the caller's buffers.
//
//   char path[PATH_MAX];
//   if (tt_find_torch(path, sizeof path)) {
//     struct TtTorchLibrary torch;
//     tt_describe_torch(path, &torch);   // torch.version == "2.15.0"
//   }
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct TtTorchLibrary {
  char path[PATH_MAX];        // as the loader knows it
  char build_id[2 * 64 + 1];  // GNU build-id in hex, "" when it has none (pip's wheels)
  char version[64];  // "1.13" (from the soname) or "2.15.0" (from version.py beside it), "" when not known
};

// Is a library mapped whose base name begins with `libtorch_cpu.so`? Copies its path (path may be NULL to
// only ask).
bool tt_find_torch(char* path, size_t path_size);

// Fills `out` for the mapped library `path`. The library must be loaded to its end (not in the middle of its
// dlopen).
void tt_describe_torch(const char* path, struct TtTorchLibrary* out);
