// What the preload part and a torch backend know of each other: C types only, so that a preload library
// without libstdc++ can load a backend built with any C++ ABI.
//
// libtensortap.so finds the libtorch_cpu in the process, picks the backend by `backends.txt` beside itself
// (one line per backend: `<build-id of libtorch_cpu|-> <torch version> <file name>`) or by the user's list of
// backends that were built on the spot, loads it (RTLD_NOW |
// RTLD_LOCAL, never unloaded), takes `tensortap_backend` from it and calls `start` once per process. C; no
// dependency.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#define TENSORTAP_BACKEND_ABI 2

// What a backend is told when it starts. Everything is the caller's and valid during the call only. A member
// that is NULL was not said: the backend looks in the environment.
struct TensortapStart {
  unsigned size;             // sizeof(struct TensortapStart), for members that come later
  int exe_linked;            // 1 when torch was there before main
  int attached;              // 1 when the job ran before the probe was loaded into it
  const char* libtorch_cpu;  // path of the mapped library, never NULL
  const char* socket;        // of the collector
  const char* launch;        // token that names the runs of one launch
  const char* capture;       // what to capture, as trace-ctl says it
};

struct TensortapSdk;

struct TensortapBackend {
  unsigned abi;               // TENSORTAP_BACKEND_ABI
  const char* torch_version;  // that it was built against, "1.13.1"

  // Opens the session and starts the capture. Returns 0, or an errno-like code when the probe stays disarmed.
  // Called from the preload constructor (programs linked to torch) or from the watcher thread; never with the
  // GIL held.
  int (*start)(const struct TensortapStart* how);

  // The process is ending by exit(status): close the window, write the terminal record. Never blocks for
  // long.
  void (*at_exit)(int status);

  // What the job may call (probe/sdk/tensortap.h); may be called as soon as `start` returned 0.
  const struct TensortapSdk* sdk;
};

// The one exported symbol of a backend.
typedef const struct TensortapBackend* (*tensortap_backend_fn)(void);

#ifdef __cplusplus
}
#endif
