#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Joins into `out`; false (and "") when it does not fit.
static bool join(char* out, const char* folder, const char* name) {
  const size_t folder_length = strlen(folder);
  const size_t name_length = strlen(name);
  if (folder_length + name_length + 2 > PATH_MAX) {
    out[0] = '\0';
    return false;
  }
  memcpy(out, folder, folder_length);
  size_t at = folder_length;
  if (at > 0 && out[at - 1] != '/') out[at++] = '/';
  memcpy(out + at, name, name_length + 1);
  return true;
}

// A relative path means the folder the job was started in.
static bool absolute(char* out, const char* path) {
  if (path[0] == '/') return join(out, "", path);
  char here[PATH_MAX];
  return getcwd(here, sizeof here) != NULL && join(out, here, path);
}

static void copy_path_variable(char* out, const char* name) {
  const char* value = secure_getenv(name);
  if (value != NULL && value[0] != '\0') absolute(out, value);
}

// Relative folders are ignored, as the XDG specification wants it.
static void copy_cache_home(char* out) {
  const char* cache = secure_getenv("XDG_CACHE_HOME");
  const char* home = secure_getenv("HOME");
  if (cache != NULL && cache[0] == '/') {
    join(out, "", cache);
  } else if (home != NULL && home[0] == '/') {
    join(out, home, ".cache");
  }
}

bool tt_config_load(struct TtConfig* out) {
  const char* disable = getenv("TENSORTAP_DISABLE");
  if (disable != NULL && disable[0] != '\0' && strcmp(disable, "0") != 0) return false;

  Dl_info self;
  if (dladdr((const void*)&tt_config_load, &self) == 0 || self.dli_fname == NULL) return false;
  if (!absolute(out->library, self.dli_fname)) return false;
  strcpy(out->folder, out->library);
  strrchr(out->folder, '/')[1] = '\0';

  copy_path_variable(out->backend, "TENSORTAP_BACKEND");
  copy_path_variable(out->backends, "TENSORTAP_BACKENDS");
  copy_cache_home(out->cache_home);
  copy_path_variable(out->log, "TENSORTAP_LOG");
  return true;
}

struct Setting {
  const char* name;
  char* place;
  size_t size;
};

// The setting that the line up to `end` is about; NULL when there is none.
static const struct Setting* find_setting(const struct Setting* settings, const char* line,
                                          size_t name_length) {
  for (; settings->name != NULL; ++settings) {
    if (strlen(settings->name) == name_length && memcmp(settings->name, line, name_length) == 0)
      return settings;
  }
  return NULL;
}

// Checks every line, and copies when `copy` is set.
static int walk_settings(const struct Setting* settings, const char* text, bool copy) {
  while (*text != '\0') {
    const size_t length = strcspn(text, "\n");
    const size_t name_length = strcspn(text, "=\n");
    const struct Setting* found = find_setting(settings, text, name_length);
    if (found == NULL || name_length == length) return EINVAL;
    const size_t value_length = length - name_length - 1;
    if (value_length >= found->size) return EINVAL;
    if (copy) {
      memcpy(found->place, text + name_length + 1, value_length);
      found->place[value_length] = '\0';
    }
    text += length;
    if (*text == '\n') ++text;
  }
  return 0;
}

int tt_config_take_settings(struct TtConfig* config, const char* text) {
  const struct Setting settings[] = {{"socket", config->socket, sizeof config->socket},
                                     {"launch", config->launch, sizeof config->launch},
                                     {"log", config->log, sizeof config->log},
                                     {"capture", config->capture, sizeof config->capture},
                                     {NULL, NULL, 0}};
  const int error = walk_settings(settings, text, false);
  if (error != 0) return error;
  config->attached = true;
  return walk_settings(settings, text, true);
}
