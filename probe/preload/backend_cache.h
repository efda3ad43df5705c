// The user's folder of backends that were built on the spot (tensortap-build-backend): where it is, and
// whether what lies in it may be loaded.
//
// It is $TENSORTAP_BACKENDS, else <cache home>/tensortap/backends/<key>, where the key names what this
// build's backends are made of: its version, its backend ABI and a digest of their sources (the file
// `backend-key` beside libtensortap.so). Another build's backends are never used.
//
// Threads: any. Files are read and asked about; no heap. Also compiled into trace-run and trace-attach.
//
//   char folder[PATH_MAX];
//   if (tt_backend_cache_folder(named, cache_home, library_folder, folder, sizeof folder) &&
//       tt_check_backend_cache(folder, geteuid()) == kTtCacheUsable) …
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum TtCacheState {
  kTtCacheAbsent = 0,
  kTtCacheUnsafe,  // no folder, not the owner's, or one that others may write to
  kTtCacheUsable,
};

// `named` (TENSORTAP_BACKENDS) and `cache_home` may be "". `library_folder` and the answer end with a slash.
// False when there is no such folder to speak of: no key, no home, too long.
bool tt_backend_cache_folder(const char* named, const char* cache_home, const char* library_folder, char* out,
                             size_t size);

// `owner`: the user whose process loads from there.
enum TtCacheState tt_check_backend_cache(const char* folder, uid_t owner);
