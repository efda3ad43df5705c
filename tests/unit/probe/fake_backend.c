// A backend that appends what it is told to the file FAKE_BACKEND_REPORT. FAKE_BACKEND_ERROR: start returns
// it.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/core/backend_abi.h"

static void report(const char* text) {
  const char* path = getenv("FAKE_BACKEND_REPORT");
  FILE* file = path == NULL ? NULL : fopen(path, "ae");
  if (file == NULL) return;
  fprintf(file, "%d %s\n", (int)getpid(), text);
  fclose(file);
}

static const char* or_none(const char* text) { return text == NULL ? "none" : text; }

static int start(const struct TensortapStart* how) {
  void* torch = dlopen(how->libtorch_cpu, RTLD_NOLOAD | RTLD_LAZY);
  int (*initialised)(void) = NULL;
  if (torch != NULL) *(void**)&initialised = dlsym(torch, "fake_torch_initialised");
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  char text[14000];
  snprintf(text, sizeof text,
           "start linked=%d initialised=%d main_thread=%d signals_blocked=%d backend=%s path=%s attached=%d "
           "socket=%s "
           "launch=%s capture=%s",
           how->exe_linked, initialised == NULL ? -1 : initialised(), getpid() == gettid(),
           sigismember(&blocked, SIGALRM), FAKE_BACKEND_NAME, how->libtorch_cpu, how->attached,
           or_none(how->socket), or_none(how->launch), or_none(how->capture));
  report(text);
  const char* error = getenv("FAKE_BACKEND_ERROR");
  return error == NULL ? 0 : atoi(error);
}

static void at_exit(int status) {
  char text[64];
  snprintf(text, sizeof text, "exit %d", status);
  report(text);
}

const struct TensortapBackend* tensortap_backend(void) {
  static const struct TensortapBackend kBackend = {FAKE_BACKEND_ABI, "1.13.1", start, at_exit};
  return &kBackend;
}
