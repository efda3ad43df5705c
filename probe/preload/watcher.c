#include "watcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "arm.h"
#include "dlopen_hook.h"
#include "state.h"
#include "torch_library.h"

enum {
  kFirstNapMs = 1,
  kLongestNapMs = 20,
  kSlowNapMs = 250,
  kFastPhaseMs = 60 * 1000,
  kForkPatienceMs = 500,
  kStackBytes =
      1 << 20,  // address space only; static thread-local storage of the job's libraries comes out of it too
};

// Exported for trace-attach, which reads it in the job's memory.
__attribute__((visibility("default"))) _Atomic int tensortap_preload_state = kTtOff;
static sem_t g_wake;
static atomic_bool g_wake_posted;

// Held whenever the watcher is inside the loader or a backend's start, so that fork can wait for a moment at
// which the child inherits no lock of a thread that it does not have.
static pthread_mutex_t g_busy = PTHREAD_MUTEX_INITIALIZER;
static pthread_t g_forking;
static bool g_fork_holds_busy;

static void start_watching(void);

// ---- fork
// ------------------------------------------------------------------------------------------------------

// Bounded: the forking thread may itself be what the watcher waits for (a fork inside a library's
// constructor).
static void before_fork(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kForkPatienceMs * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  if (pthread_mutex_timedlock(&g_busy, &until) != 0) return;
  g_forking = pthread_self();
  g_fork_holds_busy = true;
}

static bool this_thread_holds_busy(void) {
  return g_fork_holds_busy && pthread_equal(g_forking, pthread_self());
}

static void after_fork_in_parent(void) {
  if (!this_thread_holds_busy()) return;
  g_fork_holds_busy = false;
  pthread_mutex_unlock(&g_busy);
}

static void after_fork_in_child(void) {
  const bool clean = this_thread_holds_busy();
  g_fork_holds_busy = false;
  pthread_mutex_init(&g_busy, NULL);
  sem_init(&g_wake, 0, 0);
  atomic_store(&g_wake_posted, false);
  if (atomic_load(&tensortap_preload_state) == kTtArming) {
    // Forked in the middle of a load that will never end here: the loader's lists can't be trusted, keep out.
    atomic_store(&tensortap_preload_state, kTtDone);
  } else if (atomic_load(&tensortap_preload_state) == kTtWatching) {
    atomic_store(&tensortap_preload_state, kTtIdle);
    if (clean && tt_find_torch(NULL, 0)) start_watching();
  }
}

// ---- the thread
// ------------------------------------------------------------------------------------------------

// Sleeps, or until the next dlopen that speaks of torch. True when woken by one.
static bool nap(int milliseconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += milliseconds * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  if (sem_clockwait(&g_wake, CLOCK_MONOTONIC, &until) != 0) return false;
  atomic_store(&g_wake_posted, false);
  return true;
}

// True when torch was found and this process is done, one way or the other.
static bool look_and_arm(void) {
  char path[PATH_MAX];
  pthread_mutex_lock(&g_busy);
  bool ready = tt_find_torch(path, sizeof path);
  // Mapped is not initialised: asking for it again waits for the loader's lock, which the dlopen that loads
  // it holds until its constructors have run. NULL: that dlopen failed and took it away again.
  if (ready) ready = tt_real_dlopen()(path, RTLD_NOLOAD | RTLD_LAZY) != NULL;
  if (ready) {
    atomic_store(&tensortap_preload_state, kTtArming);
    tt_arm(path, false);
    atomic_store(&tensortap_preload_state, kTtDone);
  }
  pthread_mutex_unlock(&g_busy);
  return ready;
}

static void* watch(void* unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "tensortap-watch");
  int nap_ms = kFirstNapMs;
  int fast_ms = 0;
  while (!look_and_arm()) {
    if (nap(nap_ms)) {
      nap_ms = kFirstNapMs;
      fast_ms = 0;
    } else if (fast_ms < kFastPhaseMs) {
      fast_ms += nap_ms;
      if (nap_ms < kLongestNapMs) ++nap_ms;
    } else {
      nap_ms = kSlowNapMs;
    }
  }
  return NULL;
}

static int create_thread(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the job's handlers run on the job's threads only
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, watch, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

// From idle only. Without a thread (a limit of the job's) it stays idle, and the next dlopen tries again.
static void start_watching(void) {
  int expected = kTtIdle;
  if (!atomic_compare_exchange_strong(&tensortap_preload_state, &expected, kTtWatching)) return;
  static atomic_flag registered = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&registered)) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  }
  if (create_thread() != 0) atomic_store(&tensortap_preload_state, kTtIdle);
}

// ---- entry points
// ----------------------------------------------------------------------------------------------

void tt_enable_watching(void) {
  sem_init(&g_wake, 0, 0);
  atomic_store(&tensortap_preload_state, kTtIdle);
}

void tt_await_settings(void) {
  sem_init(&g_wake, 0, 0);
  atomic_store(&tensortap_preload_state, kTtUntold);
}

bool tt_awaits_settings(void) { return atomic_load(&tensortap_preload_state) == kTtUntold; }

int tt_watch_attached(void) {
  int expected = kTtUntold;
  if (!atomic_compare_exchange_strong(&tensortap_preload_state, &expected, kTtIdle)) return EALREADY;
  start_watching();
  expected = kTtIdle;
  return atomic_compare_exchange_strong(&tensortap_preload_state, &expected, kTtUntold) ? EAGAIN : 0;
}

void tt_arm_linked(const char* libtorch_cpu) {
  atomic_store(&tensortap_preload_state, kTtArming);
  // Its constructors may not have run yet; asking for it runs them.
  tt_real_dlopen()(libtorch_cpu, RTLD_NOLOAD | RTLD_LAZY);
  tt_arm(libtorch_cpu, true);
  atomic_store(&tensortap_preload_state, kTtDone);
}

void tt_note_dlopen(bool speaks_of_torch) {
  const int state = atomic_load_explicit(&tensortap_preload_state, memory_order_acquire);
  if (state == kTtIdle) {
    if (speaks_of_torch || tt_find_torch(NULL, 0)) start_watching();
  } else if (state == kTtWatching && speaks_of_torch && !atomic_exchange(&g_wake_posted, true)) {
    sem_post(&g_wake);
  }
}
