// A probe's library that tells what it was asked. FAKE_SDK_SIZE: how long its table says it is;
// FAKE_SDK_IDLE: nothing is captured; FAKE_SDK_WAITS: the capture waits for its
// first step; FAKE_SDK_LATE: no table at the first look.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/sdk/tensortap.h"

static struct TensortapSdk table;
static unsigned char capturing;
static uint64_t window;

static int taken(const char* what, const char* text, size_t length) {
  printf("  %s %.*s\n", what, (int)length, text);
  fflush(stdout);
  return 1;
}
static uint64_t range_begin(const char* name, size_t length, uint32_t flags) {
  taken(flags == TENSORTAP_MEASURED_REGION ? "measured_begin" : "range_begin", name, length);
  return length * 2 + 1;
}
static void range_end(uint64_t range) { printf("  range_end %d\n", (int)range), fflush(stdout); }
static void steps_by_job(void) { taken("steps_by_job", "", 0); }
static int step_begin(uint64_t number) {
  printf("  step_begin %lld\n", (long long)number), fflush(stdout);
  return 1;
}
static void step_end(void) { taken("step_end", "", 0); }
static int label(const void* impl, const char* text, size_t length, uint32_t category) {
  (void)impl, (void)category;
  return taken("label", text, length);
}
static int stats_tensor(const void* impl, const char* text, size_t length) {
  (void)impl;
  return taken("stats_tensor", text, length);
}
static int stats(const char* text, size_t length, const void* data, uint32_t dtype, const int64_t* shape,
                 uint32_t ndim) {
  (void)data;
  printf("  dtype %u ndim %u first %lld\n", dtype, ndim, ndim == 0 ? 0LL : (long long)shape[0]);
  return taken("stats", text, length);
}
static int stats_values(const char* text, size_t length, const struct TensortapStats* values) {
  (void)values;
  return taken("stats_values", text, length);
}
static int gradient(const char* root, size_t root_length, const char* key, size_t key_length, uint32_t state,
                    double norm) {
  (void)root, (void)root_length;
  printf("  state %u norm %g\n", state, norm);
  return taken("gradient", key, key_length);
}
static int gradient_tensor(const char* root, size_t root_length, const char* key, size_t key_length,
                           const void* impl) {
  (void)root, (void)root_length, (void)impl;
  return taken("gradient_tensor", key, key_length);
}
static int gradient_data(const char* root, size_t root_length, const char* key, size_t key_length,
                         const void* data, uint32_t dtype, uint64_t count) {
  (void)root, (void)root_length, (void)data, (void)dtype, (void)count;
  return taken("gradient_data", key, key_length);
}
static int tag(const char* key, size_t key_length, const char* value, size_t value_length) {
  taken("tag", key, key_length);
  return taken("value", value, value_length);
}
static int identity(const struct TensortapIdentity* given) {
  return taken("identity", given->model_id == NULL ? "" : given->model_id,
               given->model_id == NULL ? 0 : strlen(given->model_id));
}

__attribute__((visibility("default"))) const struct TensortapSdk* tensortap_sdk(void) {
  static int looks = 0;
  const char* size = getenv("FAKE_SDK_SIZE");
  if (looks++ == 0 && getenv("FAKE_SDK_LATE") != NULL) return NULL;
  capturing = getenv("FAKE_SDK_IDLE") == NULL;
  window = getenv("FAKE_SDK_WAITS") == NULL ? 0 : UINT64_MAX;
  table = (struct TensortapSdk){sizeof table,
                                TENSORTAP_SDK_VERSION,
                                &capturing,
                                &window,
                                range_begin,
                                range_end,
                                steps_by_job,
                                step_begin,
                                step_end,
                                label,
                                stats_tensor,
                                stats,
                                stats_values,
                                gradient,
                                gradient_tensor,
                                gradient_data,
                                tag,
                                identity};
  if (size != NULL) {
    table.size = (uint32_t)atoi(size);
    memset((char*)&table + table.size, 0x55, sizeof table - table.size);  // not there: never to be followed
  }
  return &table;
}
