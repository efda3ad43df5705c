#include "probe/core/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "format/default_paths.h"
#include "probe/core/capture.h"
#include "probe/core/op_counts.h"
#include "probe/core/process_group.h"
#include "probe/core/session_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

constexpr std::uint64_t kFlushNs = 200 * kMs;      // lines wait at most this long for their batch
constexpr std::uint64_t kFlushBytes = 512 * 1024;  // of records; fewer wait for more
constexpr std::uint64_t kRepatchNs = 50 * kMs;
constexpr std::uint64_t kStateNs = 1000 * kMs;
constexpr std::uint64_t kFirstRetryNs = 100 * kMs;
constexpr std::uint64_t kLastRetryNs = 5000 * kMs;
constexpr std::uint64_t kClosingNs =
    10000 * kMs;  // a collector that takes longer to finish a run is not waited for
constexpr int kIdleWaitMs = 5000;
constexpr int kCountingWaitMs = 1000;

std::atomic<Session*> g_session{nullptr};

pthread_mutex_t g_torch_lock = PTHREAD_MUTEX_INITIALIZER;
bool g_torch_lives = true;  // with the lock

void repatch(Session& session, std::uint64_t now) noexcept {
  if (session.observers.repatch == nullptr || !session.steps_in_place) return;
  if (now - session.last_repatch_ns < kRepatchNs) return;
  session.last_repatch_ns = now;
  if (TorchSection torch; torch) session.observers.repatch();
}

// A full ring may make its thread wait only while what is in it goes somewhere.
void say_who_waits(Session& session) noexcept {
  if (session.capture == nullptr || !session.block_when_full) return;
  SharedMemory& memory = session.capture->memory;
  const bool drained = session.connection.is_open() && session.phase == Phase::kCapturing &&
                       !memory.waited_in_vain.load(std::memory_order_relaxed);
  memory.wait_for_room.store(drained, std::memory_order_release);
}

void send_lines(Session& session, std::uint64_t now) {
  say_who_waits(session);  // before the first lines go out: that may take as long as the collector likes
  session.capture->memory.populate_ahead();
  const std::uint64_t pending = session.drain->pending_bytes();
  if (pending == 0) {
    session.last_flush_ns = now;
    return;
  }
  session.last_busy_ns = now;
  const bool hurry = session.phase == Phase::kClosing || pending >= kFlushBytes;
  if (!hurry && now - session.last_flush_ns < kFlushNs) return;
  session.last_flush_ns = now;
  flush_run(session);
}

void work_connected(Session& session, std::uint64_t now) {
  if (!session.connection.receive(0) || !hear(session)) return;
  const Phase before = session.phase;
  follow_plan(session, now);
  follow_process_group(session);
  if (!session.announced && !session.reported && session.connection.is_open()) {
    session.reported = session.connection.send(idle_hello_line(session.facts, state_name(session)), -1,
                                               is_exiting, &session);
  }
  follow_counting(session, now);
  if (session.phase == Phase::kIdle) return;
  if (session.phase != before || now > session.last_state_ns + kStateNs) send_state(session);
  sample_memory(session, now);
  repatch(session, now);
  if (!session.announced) return;
  // Until the window's span is in a ring there is nothing that may be sent before it.
  if (session.phase == Phase::kCapturing || session.phase == Phase::kClosing) send_lines(session, now);
  if (session.phase == Phase::kClosing && now - session.closing_ns > kClosingNs) {
    session.quiet = false;  // the collector may still be reading
    end_run(session);
  }
}

// A connection, and what was wanted until there was one.
bool connect(Session& session) {
  if (session.capture != nullptr) return resume_run(session);
  if (!session.connection.open(session.socket_path)) return false;
  session.reported = false;
  if (!session.wanted) return true;
  std::string why_not;
  obey(session, session.order, why_not);
  return session.connection.is_open();
}

void work(Session& session) {
  const std::uint64_t now = monotonic_ns();
  if (session.connection.is_open()) {
    work_connected(session, now);
    say_who_waits(session);
    session.next_try_ns = 0;
    if (session.connection.is_open()) return;
    session.retry_ns = kFirstRetryNs;
  }
  if (session.capture != nullptr) follow_plan(session, now);
  if (session.refused || now < session.next_try_ns) return;
  if (connect(session)) {
    session.retry_ns = kFirstRetryNs;
  } else {
    session.late = session.late || session.wanted;
    session.next_try_ns = now + session.retry_ns;
    session.retry_ns = session.retry_ns * 2 < kLastRetryNs ? session.retry_ns * 2 : kLastRetryNs;
  }
}

// How long nothing needs to be done, in ms. A connection that is idle wakes us by itself.
int pause_ms(const Session& session) noexcept {
  if (session.capture != nullptr) {
    const bool quiet = monotonic_ns() - session.last_busy_ns > 1000 * kMs;
    return session.phase == Phase::kClosing ? 2 : quiet || session.phase == Phase::kWatching ? 20 : 5;
  }
  if (session.counted_share != 0) return session.counting ? kCountingWaitMs : 1;
  if (session.connection.is_open() || session.refused) return kIdleWaitMs;
  const std::uint64_t now = monotonic_ns();
  if (session.next_try_ns <= now) return 1;
  return static_cast<int>((session.next_try_ns - now) / kMs) + 1;
}

// The kernel's part of it may take long: nobody waits for it.
void drop_fences(Session& session) {
  if (session.barriers == Barriers::kUnknown) {
    session.barriers = register_barriers() ? Barriers::kReady : Barriers::kNone;
  }
  if (session.barriers != Barriers::kReady) return;
  pthread_mutex_lock(&session.lock);
  if (!session.exiting.load(std::memory_order_relaxed)) use_barriers();
  pthread_mutex_unlock(&session.lock);
}

void* session_main(void* context) {
  auto& session = *static_cast<Session*>(context);
  prctl(PR_SET_NAME, "tensortap");
  while (!session.exiting.load(std::memory_order_relaxed)) {
    pthread_mutex_lock(&session.lock);
    try {
      if (!session.exiting.load(std::memory_order_relaxed)) work(session);
    } catch (...) {
      give_up_run(session);  // out of memory: take ourselves out of the job
      session.refused = true;
    }
    const int wait = pause_ms(session);
    pollfd ready{session.connection.fd(), POLLIN, 0};
    const bool idle = session.capture == nullptr && session.connection.is_open();
    const bool fenced = session.barriers != Barriers::kNone && capturing() &&
                        g_open_generation.load(std::memory_order_relaxed) == 0;
    pthread_mutex_unlock(&session.lock);
    if (fenced) {
      drop_fences(session);
      continue;
    }
    if (idle) {
      poll(&ready, 1, wait);
      if ((ready.revents & POLLNVAL) != 0) poll(nullptr, 0, 100);  // the job closed it: seen at the next look
    } else {
      const timespec pause{wait / 1000, static_cast<long>(wait % 1000) * 1000000};
      nanosleep(&pause, nullptr);
    }
  }
  return nullptr;
}

int start_thread(Session& session) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 512 * 1024);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, session_main, &session);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

// What is wanted of this process from the beginning: what was said at the start, else in the environment,
// else everything. What nobody understands is no reason to touch the job.
CaptureOrder first_order(const SessionSettings& settings) {
  CaptureOrder order;
  const char* variable = std::getenv("TENSORTAP_CAPTURE");
  const std::string text = !settings.capture.empty()                  ? settings.capture
                           : variable != nullptr && *variable != '\0' ? std::string(variable)
                                                                      : std::string("now");
  if (!parse_capture_order(text, order)) order.mode = CaptureOrder::Mode::kIdle;
  return order;
}

// What a thread does whose ring is full: TENSORTAP_WHEN_FULL is drop (also when nobody understands it) or
// block.
bool blocks_when_full() noexcept {
  const char* value = std::getenv("TENSORTAP_WHEN_FULL");
  return value != nullptr && std::strcmp(value, "block") == 0;
}

struct Inherited {
  std::string parent_run;
  bool steps_in_place = false, operators_in_place = false;
};

int start(const Observers& observers, const SessionSettings& settings, const Inherited& inherited) noexcept {
  try {
    auto* session = new Session;
    session->observers = observers;
    session->settings = settings;
    session->late = session->after_start = settings.attached;
    if (settings.attached) group_may_be_older();
    session->parent_run = inherited.parent_run;
    session->steps_in_place = inherited.steps_in_place;
    session->operators_in_place = inherited.operators_in_place;
    session->socket_path = settings.socket.empty() ? default_socket_path() : settings.socket;
    session->retry_ns = kFirstRetryNs;
    session->facts = read_process_facts(observers.torch_version, inherited.parent_run);
    if (!settings.launch.empty()) session->facts.launch = settings.launch;
    session->order = first_order(settings);
    session->block_when_full = blocks_when_full();
    session->wanted =
        session->order.mode != CaptureOrder::Mode::kIdle;  // always-on, too, begins with a collector
    g_session.store(session, std::memory_order_release);
    pthread_mutex_lock(&session->lock);
    if (!connect(*session) && session->wanted) session->late = true;
    session->after_start = true;  // of any later order
    pthread_mutex_unlock(&session->lock);
    return start_thread(*session);
  } catch (...) {
    return ENOMEM;
  }
}

// The first operator of a forked child: its own session, before that operator is looked at. Its callbacks are
// the parent's, so it is captured as the parent was.
void open_in_child() {
  if (g_open_after_fork.exchange(nullptr, std::memory_order_acq_rel) == nullptr) return;
  Session* parent = g_session.load(std::memory_order_acquire);
  if (parent == nullptr) return;
  SessionSettings settings = parent->settings;
  settings.attached = false;  // the child is seen from its first operator on
  settings.capture = "now";
  start(parent->observers, settings, {parent->facts.run, parent->steps_in_place, parent->operators_in_place});
}

void after_fork_in_child() {
  g_torch_lock = PTHREAD_MUTEX_INITIALIZER;  // its holder, if any, does not exist here
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return;
  if (session->capture != nullptr && session->capture->memory.fd >= 0) close(session->capture->memory.fd);
  if (session->spare != nullptr && session->spare->memory.fd >= 0) close(session->spare->memory.fd);
  session->connection.abandon();
  const bool captured = g_capturing.load(std::memory_order_relaxed) && window_is_open();
  leave_parent();
  counts_leave_parent();
  group_after_fork();
  // Most children never run an operator (subprocesses about to exec): they get no session of their own.
  if (captured) g_open_after_fork.store(open_in_child, std::memory_order_release);
}

// What is left in the rings is shared memory: the collector takes it. If it was away just now, it gets the
// memory.
void say_goodbye(Session& session, int status) {
  close_run(session, &status);
  if (!session.finished || session.connection.is_open()) return;
  if (!session.connection.open(session.socket_path)) return;
  session.connection.send(hello_line(session.facts, session.capture->memory.bytes, true),
                          session.capture->memory.fd, nullptr, nullptr);
}

}  // namespace

TorchSection::TorchSection() noexcept {
  pthread_mutex_lock(&g_torch_lock);
  lives_ = g_torch_lives;
}

TorchSection::~TorchSection() { pthread_mutex_unlock(&g_torch_lock); }

void session_torch_ends() noexcept {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 5;  // longer than any section takes
  if (pthread_mutex_timedlock(&g_torch_lock, &until) != 0) return;
  g_torch_lives = false;
  pthread_mutex_unlock(&g_torch_lock);
}

bool is_exiting(void* session) {
  return static_cast<Session*>(session)->exiting.load(std::memory_order_relaxed);
}

int session_start(const Observers& observers, const SessionSettings& settings) noexcept {
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  return start(observers, settings, {});
}

void session_exit(int status) noexcept {
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || session->facts.pid != static_cast<std::uint64_t>(getpid())) return;
  session->exiting.store(true, std::memory_order_relaxed);
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 500 * static_cast<long>(kMs);
  if (until.tv_nsec >= 1000000000) {
    ++until.tv_sec;
    until.tv_nsec -= 1000000000;
  }
  if (pthread_mutex_timedlock(&session->lock, &until) != 0) return;
  try {
    say_goodbye(*session, status);
  } catch (...) {
  }
  pthread_mutex_unlock(&session->lock);
}

}  // namespace tensortap::probe
