// The preload part's only voice: one line appended to the file that TENSORTAP_LOG names. Never stdout, never
// stderr.
//
// Threads: any; a line is one write, so that lines of several processes don't mix. No heap.
//
//   tt_log("no backend for %s", path);   →   "4711 python3: no backend for /…/libtorch_cpu.so"
#pragma once

void tt_log(const char* format, ...) __attribute__((format(printf, 1, 2)));
