// libtensortap.so, the part that LD_PRELOAD names. It runs in every program of the job, also in those that
// have nothing to do with torch: there its constructor reads three variables and looks once through the
// loader's list, and that is all: no thread, no socket, no heap. See README.md in this folder for the way
// from here to a started backend.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arm.h"
#include "config.h"
#include "dlopen_hook.h"
#include "torch_library.h"
#include "watcher.h"

struct TtConfig tt_config;

// Every copy of this library exports it; the first one in the process's search order is the one that acts.
__attribute__((visibility("default"))) const int tensortap_preload_marker = 1;
// This copy's own; the exported name means the first copy's, here too.
extern const int tt_own_marker __attribute__((alias("tensortap_preload_marker"), visibility("hidden")));

static bool is_first_copy(void) {
  const void* first = dlsym(RTLD_DEFAULT, "tensortap_preload_marker");
  return first == NULL || first == &tt_own_marker;
}

// Libraries that are there from the start come before libc in the loader's list if they are preloaded; one
// that a running job loads comes behind it.
struct Order {
  bool libc_seen;
  bool late;
};

static int look_at_order(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct Order* order = data;
  const char* name = info->dlpi_name == NULL ? "" : info->dlpi_name;
  const char* slash = strrchr(name, '/');
  if (strcmp(slash == NULL ? name : slash + 1, "libc.so.6") == 0) order->libc_seen = true;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || (uintptr_t)&tt_own_marker - begin >= segment->p_memsz) continue;
    order->late = order->libc_seen;
    return 1;
  }
  return 0;
}

static bool is_loaded_into_running_job(void) {
  struct Order order = {false, false};
  dl_iterate_phdr(look_at_order, &order);
  return order.late;
}

static void at_process_exit(int status, void* unused) {
  (void)unused;
  tt_disarm_at_exit(status);
}

__attribute__((constructor)) static void on_load(void) {
  tt_real_dlopen();
  if (!is_first_copy() || !tt_config_load(&tt_config)) return;
  // Registered before main and before the loader's own handler: runs after the destructors of the job's
  // libraries, whose operators are part of the job. on_exit, because atexit does not tell the status.
  on_exit(at_process_exit, NULL);
  if (is_loaded_into_running_job()) {
    tt_await_settings();  // the job's thread is borrowed: it goes back at once
    return;
  }
  char path[PATH_MAX];
  if (tt_find_torch(path, sizeof path)) {
    tt_arm_linked(path);
  } else {
    tt_enable_watching();
  }
}

// What trace-attach calls in a running job, after it had this library loaded, on a thread that it borrowed:
// takes the settings (config.h) and returns; the watcher arms. 0, or an errno: EALREADY when the probe is
// there already, EINVAL.
__attribute__((visibility("default"))) int tensortap_attach(const char* settings) {
  if (!tt_awaits_settings()) return EALREADY;
  const int error = tt_config_take_settings(&tt_config, settings);
  return error != 0 ? error : tt_watch_attached();
}
