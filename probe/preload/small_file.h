// Reads a whole small text file into the caller's buffer, without stdio and without the heap.
//
// Threads: any. Ownership: the caller's buffer; the text ends with NUL.
//
//   char text[4096];
//   if (tt_read_small_file("/…/backends.txt", text, sizeof text)) parse(text);
#pragma once

#include <stdbool.h>
#include <stddef.h>

// False when the file can't be opened or read. A longer file is cut to what fits.
bool tt_read_small_file(const char* path, char* text, size_t size);
