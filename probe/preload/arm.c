#include "arm.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend_cache.h"
#include "backend_list.h"
#include "config.h"
#include "dlopen_hook.h"
#include "log.h"
#include "probe/core/backend_abi.h"
#include "small_file.h"
#include "torch_library.h"

enum { kListBytes = 8192 };

static _Atomic(const struct TensortapBackend*) g_backend;

// Never unloaded (RTLD_NODELETE): once its callbacks are registered, a running operator may still call them.
static const struct TensortapBackend* load_backend(const char* path) {
  void* handle = tt_real_dlopen()(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL) {
    tt_log("backend %s can't be loaded: %s", path, dlerror());
    return NULL;
  }
  tensortap_backend_fn entry;
  *(void**)&entry = dlsym(handle, "tensortap_backend");  // POSIX's way to turn data pointers into functions
  const struct TensortapBackend* backend = entry == NULL ? NULL : entry();
  if (backend == NULL) {
    tt_log("%s is no tensortap backend (it exports no tensortap_backend)", path);
    return NULL;
  }
  if (backend->abi != TENSORTAP_BACKEND_ABI) {
    tt_log("backend %s speaks ABI %u, this libtensortap.so %u: install both from one build", path,
           backend->abi, (unsigned)TENSORTAP_BACKEND_ABI);
    return NULL;
  }
  return backend;
}

static const char* null_if_empty(const char* text) { return text[0] == '\0' ? NULL : text; }

static bool start_backend(const struct TensortapBackend* backend, const char* path, const char* libtorch_cpu,
                          bool linked_to_program) {
  const struct TensortapStart how = {
      .size = sizeof how,
      .exe_linked = linked_to_program ? 1 : 0,
      .attached = tt_config.attached ? 1 : 0,
      .libtorch_cpu = libtorch_cpu,
      .socket = null_if_empty(tt_config.socket),
      .launch = null_if_empty(tt_config.launch),
      .capture = null_if_empty(tt_config.capture),
  };
  const int error = backend->start(&how);
  if (error != 0) {
    tt_log("backend %s for torch %s stays disarmed: %s", path, backend->torch_version, strerror(error));
    return false;
  }
  atomic_store(&g_backend, backend);
  tt_log("started backend %s for torch %s", path, backend->torch_version);
  return true;
}

// A backends.txt: what is in it, and the folder that its file names start from.
struct List {
  char folder[PATH_MAX];  // with a trailing slash
  char text[kListBytes];  // "" when there is none
};

static bool read_list(struct List* list) {
  char file[PATH_MAX + 16];
  snprintf(file, sizeof file, "%sbackends.txt", list->folder);
  if (tt_read_small_file(file, list->text, sizeof list->text)) return true;
  list->text[0] = '\0';
  return false;
}

// The list beside the library; when that is a symbolic link, beside its target.
static bool read_own_list(struct List* list) {
  snprintf(list->folder, sizeof list->folder, "%s", tt_config.folder);
  if (read_list(list)) return true;
  if (realpath(tt_config.library, list->folder) == NULL) return false;
  strrchr(list->folder, '/')[1] = '\0';
  return read_list(list);
}

// The list of the backends that were built on the spot. `own_folder` has the key.
static bool read_cached_list(const char* own_folder, struct List* list) {
  list->text[0] = '\0';
  if (!tt_backend_cache_folder(tt_config.backends, tt_config.cache_home, own_folder, list->folder,
                               sizeof list->folder)) {
    return false;
  }
  const enum TtCacheState state = tt_check_backend_cache(list->folder, geteuid());
  if (state == kTtCacheUnsafe) {
    tt_log("backends in %s are not used: it must be a folder of this user's that nobody else may write to",
           list->folder);
  }
  return state == kTtCacheUsable && read_list(list);
}

static void path_of(const struct List* list, const struct TtBackendLine* line, char* path, size_t size) {
  if (line->file[0] == '/') {
    snprintf(path, size, "%s", line->file);
  } else {
    snprintf(path, size, "%.*s%s", PATH_MAX - 1, list->folder, line->file);
  }
}

static const char* or_unknown(const char* text) { return text[0] == '\0' ? "unknown" : text; }

static void log_no_fit(const struct TtTorchLibrary* torch, const struct List* lists, int count) {
  char versions[256] = "";
  size_t length = 0;
  struct TtBackendLine line;
  for (int i = 0; i < count; ++i) {
    for (const char* at = lists[i].text;
         (at = tt_next_backend(at, &line)) != NULL && length < sizeof versions - 1;) {
      length += (size_t)snprintf(versions + length, sizeof versions - length, "%s%s", length == 0 ? "" : ", ",
                                 line.version);
    }
  }
  // The command stands last: trace-run takes it from here.
  tt_log(
      "no backend for %s (version %s, build-id %s); there are backends for: %s. Build one "
      "with " TT_BUILD_COMMAND "%s",
      torch->path, or_unknown(torch->version), or_unknown(torch->build_id), length == 0 ? "none" : versions,
      torch->path);
}

// The very build first, then equal versions in the order of the lists. One that can't be loaded (another C++
// ABI under the same version) is no reason not to try the next; one that was loaded and refused is.
static bool arm_from_lists(const struct TtTorchLibrary* torch, const struct List* lists, int count,
                           bool linked_to_program) {
  bool fitted = false;
  for (int wanted = kTtSameBuild; wanted >= kTtSameVersion; --wanted) {
    for (int i = 0; i < count; ++i) {
      struct TtBackendLine line;
      for (const char* at = lists[i].text; (at = tt_next_backend(at, &line)) != NULL;) {
        if ((int)tt_backend_fit(&line, torch->build_id, torch->version) != wanted) continue;
        fitted = true;
        char path[2 * PATH_MAX];
        path_of(&lists[i], &line, path, sizeof path);
        const struct TensortapBackend* backend = load_backend(path);
        if (backend != NULL) return start_backend(backend, path, torch->path, linked_to_program);
      }
    }
  }
  if (!fitted) log_no_fit(torch, lists, count);
  return false;
}

bool tt_arm(const char* libtorch_cpu, bool linked_to_program) {
  if (tt_config.backend[0] != '\0') {
    const struct TensortapBackend* backend = load_backend(tt_config.backend);
    return backend != NULL && start_backend(backend, tt_config.backend, libtorch_cpu, linked_to_program);
  }
  struct List lists[2];
  const bool own = read_own_list(&lists[0]);
  const bool cached = read_cached_list(lists[0].folder, &lists[1]);
  if (!own && !cached) {
    tt_log("no backends.txt beside %s: reinstall tensortap, or name a backend with TENSORTAP_BACKEND",
           tt_config.library);
    return false;
  }
  struct TtTorchLibrary torch;
  tt_describe_torch(libtorch_cpu, &torch);
  return arm_from_lists(&torch, lists, 2, linked_to_program);
}

void tt_disarm_at_exit(int status) {
  const struct TensortapBackend* backend = atomic_load(&g_backend);
  if (backend != NULL) backend->at_exit(status);
}

// What programs that include tensortap.h look for.
__attribute__((visibility("default"))) const struct TensortapSdk* tensortap_sdk(void) {
  const struct TensortapBackend* backend = atomic_load(&g_backend);
  return backend == NULL ? NULL : backend->sdk;
}
