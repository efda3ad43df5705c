// `backends.txt`: which backends were built, and which of them fit the libtorch in this process.
//
// One line per backend: `<build-id of its libtorch_cpu | -> <torch version> <file name>`; lines that begin
// with `#` and empty ones are skipped. Pure functions over a text; no system call, no heap. Threads: any.
//
//   const char* at = text;
//   struct TtBackendLine line;
//   while ((at = tt_next_backend(at, &line)) != NULL)
//     if (tt_backend_fit(&line, build_id, version) != kTtNoFit) try(line.file);
#pragma once

#include <limits.h>
#include <stdbool.h>

// What builds a missing backend, behind it the path of the libtorch_cpu; in the log, and looked for there.
#define TT_BUILD_COMMAND "tensortap-build-backend --torch "

struct TtBackendLine {
  char build_id[129];   // lower-case hex, or "-"
  char version[64];     // "2.15.0"
  char file[PATH_MAX];  // relative to the folder of libtensortap.so, or absolute
};

enum TtFit {
  kTtNoFit = 0,
  kTtSameVersion,  // equal major.minor.patch as far as both are known, and at least major.minor are
  kTtSameBuild,    // the very library it was built against
};

// Parses the next backend at `cursor`; returns where to go on, or NULL when there is none left. A line with
// fewer than three words is skipped.
const char* tt_next_backend(const char* cursor, struct TtBackendLine* out);

enum TtFit tt_backend_fit(const struct TtBackendLine* line, const char* build_id, const char* version);
