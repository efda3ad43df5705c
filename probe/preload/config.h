// What the preload part was told by its environment and knows of its own place, copied once in the
// constructor: the job may overwrite its environment block or change its folder at any later moment.
//
// Threads: written by the constructor and, in a job that is attached to, by tensortap_attach before the
// watcher exists; read-only afterwards. Nothing on the heap.
//
//   if (!tt_config_load(&g_config)) return;   // TENSORTAP_DISABLE
#pragma once

#include <limits.h>
#include <stdbool.h>

struct TtConfig {
  char folder[PATH_MAX];      // where libtensortap.so lies, with a trailing slash; `backends.txt` is there
  char library[PATH_MAX];     // libtensortap.so itself
  char backends[PATH_MAX];    // TENSORTAP_BACKENDS: the folder of backends built on the spot; "" = the user's
  char cache_home[PATH_MAX];  // XDG_CACHE_HOME, else $HOME/.cache; "" when neither is set
  char backend[PATH_MAX];     // TENSORTAP_BACKEND: this backend and no other; "" = choose
  char log[PATH_MAX];  // TENSORTAP_LOG: a line is appended when a backend starts or why none does; "" = none
  // What only an attaching tool says (a launched job's backend finds it in the environment); "" = not said.
  char socket[PATH_MAX];
  char launch[256];
  char capture[256];
  bool attached;  // loaded into a running job
};

// False when TENSORTAP_DISABLE is set (to anything but "" and "0") or the library can't tell its own place.
bool tt_config_load(struct TtConfig* out);

// Takes the settings of an attaching tool: lines of `name=value`, names socket, launch, log, capture;
// absolute paths. 0, or EINVAL: an unknown name or a value that is too long; then nothing was taken.
int tt_config_take_settings(struct TtConfig* config, const char* settings);

// The process's one configuration (in preload.c).
extern struct TtConfig tt_config;
