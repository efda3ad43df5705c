// Which version a libtorch_cpu has, by its name and the files beside it; no need for it to be loaded.
//
// Threads: any. Reads small files; no heap.
//
//   char version[64];
//   tt_version_of_torch("/…/torch/lib/libtorch_cpu.so", "", version, sizeof version);   // "2.15.0"
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Is the base name of this path libtorch_cpu.so, with or without a version behind it?
bool tt_names_torch(const char* path);

// "1.13" (from the name, or from `soname`, which may be "") or "2.15.0" (from version.py or build-version in
// the folder above the library's); "" when not known.
void tt_version_of_torch(const char* path, const char* soname, char* version, size_t size);
