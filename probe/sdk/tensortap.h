/* What a job can say to a trace itself: ranges, steps, names and statistics of tensors, gradients, tags.
 *
 *   #include <tensortap.h>
 *
 *   uint64_t range = tensortap_range_begin("tokenize");
 *   …
 *   tensortap_range_end(range);
 *
 * Nothing is linked and nothing is needed: without a probe in the process, or while nothing is captured,
 * every call returns at once. The probe may come later (trace-attach); it is looked for once a second at
 * most.
 *
 * Every function may be called from any thread, takes no lock that it would wait for, keeps no pointer, and
 * touches no errno of the caller. Texts are UTF-8, end with NUL, are copied, and are cut after 4096 bytes.
 * Times are the probe's. C11 or C++11; GCC or Clang on Linux. The ABI is struct TensortapSdk: it only ever
 * grows at its end, so a program that was built with this header works with older and newer probes.
 */
#ifndef TENSORTAP_H
#define TENSORTAP_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
#define TENSORTAP_INLINE inline __attribute__((visibility("hidden")))
#define TENSORTAP_NOEXCEPT noexcept
extern "C" {
#else
#define TENSORTAP_INLINE static inline
#define TENSORTAP_NOEXCEPT
#endif

#define TENSORTAP_SDK_VERSION 1u

/* Element types: the numbers of c10::ScalarType. */
enum TensortapDtype {
  TENSORTAP_U8 = 0,
  TENSORTAP_I8 = 1,
  TENSORTAP_I16 = 2,
  TENSORTAP_I32 = 3,
  TENSORTAP_I64 = 4,
  TENSORTAP_F16 = 5,
  TENSORTAP_F32 = 6,
  TENSORTAP_F64 = 7,
  TENSORTAP_BOOL = 11,
  TENSORTAP_BF16 = 15,
  TENSORTAP_U16 = 27,
  TENSORTAP_U32 = 28,
  TENSORTAP_U64 = 29
};

enum TensortapGradientState {
  TENSORTAP_GRADIENT_PRESENT = 0, /* the norm decides between present, zero and non-finite */
  TENSORTAP_GRADIENT_MISSING = 1,
  TENSORTAP_GRADIENT_ZERO = 2,
  TENSORTAP_GRADIENT_NON_FINITE = 3
};

enum TensortapCategory {
  TENSORTAP_PARAMETER = 0,
  TENSORTAP_ACTIVATION = 1,
  TENSORTAP_GRADIENT = 2,
  TENSORTAP_OPTIMIZER = 3,
  TENSORTAP_OTHER = 4
};

/* How this run is to be compared with others. What is said twice replaces what was said before. */
struct TensortapIdentity {
  uint32_t size; /* sizeof(struct TensortapIdentity) */
  uint32_t reserved;
  uint64_t physical_batch;       /* at least 1 */
  uint64_t accumulation_steps;   /* at least 1 */
  const char* implementation_id; /* or NULL */
  const char* pair_id;           /* or NULL */
  const char* workload_id;       /* this one and all below: not blank */
  const char* model_id;
  const char* config_id;
  const char* data_id;
  const char* seed_policy;
  const char* precision;
  const char* device_state;
};

/* Reductions that the job made itself, over all elements. One that is not finite is written as 0. */
struct TensortapStats {
  uint32_t size; /* sizeof(struct TensortapStats) */
  uint32_t dtype;
  const int64_t* shape;
  uint32_t ndim;
  uint32_t reserved;
  uint64_t non_finite; /* elements that are NaN or infinite */
  double rms, abs_max, mean;
};

/* Bits of range_begin's flags. */
#define TENSORTAP_MEASURED_REGION 1u
/* A step without a number of its own: it gets the next one. */
#define TENSORTAP_NEXT_STEP UINT64_MAX

/* What functions that return int return. */
#define TENSORTAP_TAKEN 1
#define TENSORTAP_NOT_TAKEN 0
#define TENSORTAP_NOT_HOST (-1) /* the tensor's elements are not plain dense host memory: copy it first */

/* What the probe offers. Lengths are in bytes. */
struct TensortapSdk {
  uint32_t size;                  /* of this table, in bytes: members behind it are not there */
  uint32_t version;               /* of the SDK that the probe was built with */
  const unsigned char* capturing; /* not 0 while threads are followed */
  const uint64_t* window;         /* UINT64_MAX while that is all: the capture waits for its first step */
  uint64_t (*range_begin)(const char* name, size_t length, uint32_t flags);
  void (*range_end)(uint64_t range);
  void (*steps_by_job)(void);
  int (*step_begin)(uint64_t number);
  void (*step_end)(void);
  int (*label)(const void* tensor_impl, const char* label, size_t length, uint32_t category);
  int (*stats_tensor)(const void* tensor_impl, const char* label, size_t length);
  int (*stats)(const char* label, size_t length, const void* data, uint32_t dtype, const int64_t* shape,
               uint32_t ndim);
  int (*stats_values)(const char* label, size_t length, const struct TensortapStats* stats);
  int (*gradient)(const char* root, size_t root_length, const char* key, size_t key_length, uint32_t state,
                  double norm);
  int (*gradient_tensor)(const char* root, size_t root_length, const char* key, size_t key_length,
                         const void* tensor_impl);
  int (*gradient_data)(const char* root, size_t root_length, const char* key, size_t key_length,
                       const void* data, uint32_t dtype, uint64_t count);
  int (*tag)(const char* key, size_t key_length, const char* value, size_t value_length);
  int (*identity)(const struct TensortapIdentity* identity);
};

/* Exported by libtensortap.so as `tensortap_sdk`; NULL until a backend was started. */
typedef const struct TensortapSdk* (*TensortapSdkFunction)(void);

/* Looks for a probe. `table` is where the answer is kept. */
TENSORTAP_INLINE const struct TensortapSdk* tensortap_look_(const struct TensortapSdk** table)
    TENSORTAP_NOEXCEPT {
  static time_t looked; /* two threads that look in the same second do no harm */
  const time_t now = time(NULL);
  void* symbol;
  TensortapSdkFunction function = NULL;
  const struct TensortapSdk* found;
  if (__atomic_load_n(&looked, __ATOMIC_RELAXED) == now) return NULL;
  __atomic_store_n(&looked, now, __ATOMIC_RELAXED);
  symbol = dlsym(NULL, "tensortap_sdk"); /* NULL: RTLD_DEFAULT, which glibc shows to GNU programs only */
  memcpy(&function, &symbol, sizeof symbol);
  if (function == NULL) return NULL;
  found = function();
  if (found != NULL) __atomic_store_n(table, found, __ATOMIC_RELEASE);
  return found;
}

/* The probe's table, or NULL. It never goes away again. */
TENSORTAP_INLINE const struct TensortapSdk* tensortap_table_(void) TENSORTAP_NOEXCEPT {
  static const struct TensortapSdk* table;
  const struct TensortapSdk* found = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
  return __builtin_expect(found != NULL, 1) ? found : tensortap_look_(&table);
}

/* Has the probe's table this member? An older probe's may be shorter. */
#define TENSORTAP_HAS_(table, member)                                                  \
  (offsetof(struct TensortapSdk, member) + sizeof((table)->member) <= (table)->size && \
   (table)->member != NULL)

/* The table while threads are followed (a capture runs, or waits for its first step), else NULL. */
TENSORTAP_INLINE const struct TensortapSdk* tensortap_followed_(void) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_table_();
  if (table == NULL || __atomic_load_n(table->capturing, __ATOMIC_RELAXED) == 0) return NULL;
  return table;
}

/* The table while something is captured, else NULL. */
TENSORTAP_INLINE const struct TensortapSdk* tensortap_live_(void) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_followed_();
  if (table == NULL || __atomic_load_n(table->window, __ATOMIC_RELAXED) == UINT64_MAX) return NULL;
  return table;
}

/* Is anything being captured now? To leave out work whose only purpose is the trace. */
TENSORTAP_INLINE int tensortap_is_capturing(void) TENSORTAP_NOEXCEPT { return tensortap_live_() != NULL; }

/* A range of the calling thread. Ranges may end in any order, and on another thread; what is still open
 * inside one when it ends keeps it open. 0 when nothing is captured: to be handed to tensortap_range_end all
 * the same. */
TENSORTAP_INLINE uint64_t tensortap_range_begin(const char* name) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_followed_();
  return table != NULL && name != NULL ? table->range_begin(name, strlen(name), 0) : 0;
}
TENSORTAP_INLINE void tensortap_range_end(uint64_t range) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = range != 0 ? tensortap_table_() : NULL;
  if (table != NULL) table->range_end(range);
}

/* A range whose figures are asked for: the trace marks it as a measured region, and `trace-analyze cat` can
 * be told its times. (The trace's one `measured` span stays the capture's window.) */
TENSORTAP_INLINE uint64_t tensortap_measured_begin(const char* name) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_followed_();
  return table != NULL && name != NULL ? table->range_begin(name, strlen(name), TENSORTAP_MEASURED_REGION)
                                       : 0;
}
TENSORTAP_INLINE void tensortap_measured_end(uint64_t region) TENSORTAP_NOEXCEPT {
  tensortap_range_end(region);
}

/* The job marks its steps itself from here on: no more are inferred in this process. The first step says so
 * too; call this before, when work of the first step (a batch to load) comes ahead of it. */
TENSORTAP_INLINE void tensortap_steps_by_job(void) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_table_();
  if (table != NULL) table->steps_by_job();
}

/* A step of the job, numbered on from the last one, or as it says (below 2^32); steps count while nothing is
 * captured too, so that a capture that begins later has the job's numbers. Steps are one thread's; one that
 * would begin inside an operator, a module call or another step is left out and counted. 1 when it began:
 * then end it. */
TENSORTAP_INLINE int tensortap_step_begin_numbered(uint64_t number) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_table_();
  return table != NULL ? table->step_begin(number) : 0;
}
TENSORTAP_INLINE int tensortap_step_begin(void) TENSORTAP_NOEXCEPT {
  return tensortap_step_begin_numbered(TENSORTAP_NEXT_STEP);
}
TENSORTAP_INLINE void tensortap_step_end(void) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_table_();
  if (table != NULL) table->step_end();
}

/* Names a tensor of torch. `tensor_impl`: its c10::TensorImpl, alive during the call (tensortap.hpp takes a
 * tensor). */
TENSORTAP_INLINE int tensortap_label(const void* tensor_impl, const char* label,
                                     enum TensortapCategory category) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || tensor_impl == NULL || label == NULL || !TENSORTAP_HAS_(table, label)) return 0;
  return table->label(tensor_impl, label, strlen(label), (uint32_t)category);
}

/* Statistics of a tensor of torch, as below, if its elements are plain dense host memory. */
TENSORTAP_INLINE int tensortap_stats_tensor(const void* tensor_impl, const char* label) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || tensor_impl == NULL || label == NULL || !TENSORTAP_HAS_(table, stats_tensor)) return 0;
  return table->stats_tensor(tensor_impl, label, strlen(label));
}

/* Statistics (count of non-finite elements, root mean square, greatest magnitude, mean) of contiguous host
 * memory, worked out on the calling thread: about a nanosecond an element. `shape` may be NULL when `ndim` is
 * 0 (one element). */
TENSORTAP_INLINE int tensortap_stats(const char* label, const void* data, enum TensortapDtype dtype,
                                     const int64_t* shape, uint32_t ndim) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || label == NULL || !TENSORTAP_HAS_(table, stats)) return 0;
  return table->stats(label, strlen(label), data, (uint32_t)dtype, shape, ndim);
}
TENSORTAP_INLINE int tensortap_scalar(const char* label, double value) TENSORTAP_NOEXCEPT {
  return tensortap_stats(label, &value, TENSORTAP_F64, NULL, 0);
}
/* The same where the job has worked them out itself, on a device say. */
TENSORTAP_INLINE int tensortap_stats_values(const char* label,
                                            const struct TensortapStats* stats) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || label == NULL || stats == NULL || !TENSORTAP_HAS_(table, stats_values)) return 0;
  return table->stats_values(label, strlen(label), stats);
}

/* A parameter's gradient: `root` names the collection (a model), `key` the parameter in it. */
TENSORTAP_INLINE int tensortap_gradient(const char* root, const char* key, enum TensortapGradientState state,
                                        double norm) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || root == NULL || key == NULL || !TENSORTAP_HAS_(table, gradient)) return 0;
  return table->gradient(root, strlen(root), key, strlen(key), (uint32_t)state, norm);
}
/* The same from the gradient's tensor, which may be undefined (at::Tensor()): the gradient is missing then.
 */
TENSORTAP_INLINE int tensortap_gradient_tensor(const char* root, const char* key,
                                               const void* tensor_impl) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || root == NULL || key == NULL || !TENSORTAP_HAS_(table, gradient_tensor)) return 0;
  return table->gradient_tensor(root, strlen(root), key, strlen(key), tensor_impl);
}
/* The same from the gradient's elements in host memory; its norm is worked out on the calling thread. */
TENSORTAP_INLINE int tensortap_gradient_data(const char* root, const char* key, const void* data,
                                             enum TensortapDtype dtype, uint64_t count) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_live_();
  if (table == NULL || root == NULL || key == NULL || !TENSORTAP_HAS_(table, gradient_data)) return 0;
  return table->gradient_data(root, strlen(root), key, strlen(key), data, (uint32_t)dtype, count);
}

/* A tag of the run: any text under a key (at most 64 keys of 128 bytes, values of 1024). Told while nothing
 * is captured it is kept for the captures that come; 0 when there is no probe yet. */
TENSORTAP_INLINE int tensortap_tag(const char* key, const char* value) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_table_();
  if (table == NULL || key == NULL || value == NULL || !TENSORTAP_HAS_(table, tag)) return 0;
  return table->tag(key, strlen(key), value, strlen(value));
}
TENSORTAP_INLINE int tensortap_identity(const struct TensortapIdentity* identity) TENSORTAP_NOEXCEPT {
  const struct TensortapSdk* table = tensortap_table_();
  if (table == NULL || identity == NULL || !TENSORTAP_HAS_(table, identity)) return 0;
  return table->identity(identity);
}

#ifdef __cplusplus
}
#endif
#endif
