// A call in another process's thread: it happens, and the thread goes on as if nothing had been: registers,
// vectors, floating point modes, signal mask, sleeping system calls; also when the caller is killed in the
// middle.
#include <gtest/gtest.h>
#include <immintrin.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "probe/attach/process_view.h"
#include "probe/attach/remote_image.h"
#include "probe/attach/remote_memory.h"
#include "probe/attach/safe_moment.h"
#include "probe/attach/thread_call.h"

namespace tensortap::probe {
namespace {

// Shared with the child.
struct Board {
  std::atomic<int> ready{0}, calls{0}, stop{0}, bad{0};
  std::atomic<long> rounds{0};
  char said[64];
};
Board* board = nullptr;

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

extern "C" __attribute__((noinline, visibility("default"))) int called_from_outside(const char* text,
                                                                                    long second) {
  // Whatever a function may do to the registers that are the caller's to save.
  __asm__ volatile("vzeroall" ::: "memory");
  // Not by a sleep: the kernel keeps one sleep's rest for each thread.
  for (const std::uint64_t begin = now_ns(); now_ns() - begin < static_cast<std::uint64_t>(second) * 1000;) {
  }
  snprintf(board->said, sizeof board->said, "%s", text);
  board->calls.fetch_add(1);
  return 5;
}

// Any change of a register shows: integers and vectors are carried along in registers for long, under a
// rounding mode that is not the usual one.
__attribute__((noinline)) double carry(long rounds) {
  double sum = 0;
  __m256d vector = _mm256_set_pd(1, 2, 3, 4);
  std::uint64_t mixed = 88172645463325252ULL;
  for (long i = 0; i < rounds; ++i) {
    mixed ^= mixed << 13, mixed ^= mixed >> 7, mixed ^= mixed << 17;
    vector = _mm256_add_pd(vector, _mm256_set1_pd(static_cast<double>(mixed & 1023) / 3));
    sum += static_cast<double>(mixed & 255) / 7;
  }
  double lanes[4];
  _mm256_storeu_pd(lanes, vector);
  return sum + lanes[0] + lanes[1] * 3 + lanes[2] * 5 + lanes[3] * 7;
}

void compute_until_told() {
  _mm_setcsr(_mm_getcsr() | 0x8040 | 0x2000);  // flush to zero, denormals are zero, round down
  const double expected = carry(20'000);
  board->ready = 1;
  while (board->stop == 0) {
    if (carry(20'000) != expected) board->bad.fetch_add(1);
    board->rounds.fetch_add(1);
  }
}

// A sanitizer's run-time keeps books on the stack that is borrowed, and its handlers come between.
constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    true;
#else
    false;
#endif
#else
    false;
#endif

class AttachCall : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "calls into a process that a sanitizer watches are not made";
    void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board = new (memory) Board;
  }
  void TearDown() override {
    if (child_ > 0) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
    ::munmap(static_cast<void*>(board), sizeof(Board));
  }
  void start(const std::function<void()>& work) {
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      work();
      ::_exit(board->bad == 0 ? 0 : 1);
    }
    while (board->ready == 0) ::usleep(1000);
    memory_ = RemoteMemory::open(child_);
    if (!memory_) GTEST_SKIP() << "ptrace is not allowed here: " << strerror(errno);
    // A forked child has our addresses.
    const auto mappings = read_mappings(child_);
    const Mapping* libc = find_image(mappings, "libc.so");
    ASSERT_NE(libc, nullptr);
    for (const Mapping& mapping : mappings) {
      if (mapping.path != libc->path || !mapping.executable) continue;
      const std::string_view code(reinterpret_cast<const char*>(mapping.begin), mapping.end - mapping.begin);
      const std::size_t at = code.find(std::string_view("\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9));
      ASSERT_NE(at, std::string_view::npos);
      call_.restorer = mapping.begin + at;
    }
    call_.function = reinterpret_cast<std::uint64_t>(&called_from_outside);
    call_.text = "hello there";
    call_.second = 100;  // µs
  }
  CallResult call() {
    auto mappings = read_mappings(child_);
    mark_lock_keepers(mappings, *memory_);
    CallResult result;
    for (int tries = 0; tries < 2000; ++tries) {
      result = call_on_thread(*memory_, child_, call_, [&](const user_regs_struct& registers) {
        return unsafe_reason(registers, mappings, Patience::kSpent);
      });
      if (result.outcome != CallOutcome::kUnsafe) return result;
      ::usleep(500);
    }
    return result;
  }
  int end() {
    board->stop = 1;
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return status;
  }

  pid_t child_ = -1;
  std::optional<RemoteMemory> memory_;
  RemoteCall call_;
};

TEST_F(AttachCall, finds_a_function_by_its_name_in_the_other_process) {
  start([] { compute_until_told(); });
  const auto mappings = read_mappings(child_);
  const auto image = RemoteImage::at(*memory_, find_image(mappings, "libc.so")->begin);
  ASSERT_TRUE(image);
  EXPECT_EQ(image->symbol("getppid"), reinterpret_cast<std::uint64_t>(&::getppid));
  EXPECT_FALSE(image->symbol("there_is_no_such_function"));
  EXPECT_EQ(image->soname(), "libc.so.6");
  EXPECT_GE(image->build_id().size(), 16u);
}

TEST_F(AttachCall, a_computing_thread_is_called_often_and_computes_the_same) {
  start([] { compute_until_told(); });
  for (int i = 1; i <= 50; ++i) {
    const CallResult result = call();
    ASSERT_EQ(result.outcome, CallOutcome::kReturned) << result.reason;
    ASSERT_EQ(board->calls, i);
    ASSERT_STREQ(board->said, "hello there");
  }
  EXPECT_EQ(end(), 0);
  EXPECT_GT(board->rounds, 0);
}

TEST_F(AttachCall, a_thread_that_is_not_watched_comes_back_by_itself) {
  start([] { compute_until_told(); });
  for (int i = 1; i <= 50; ++i) {
    call_.done = [i] { return board->calls == i; };
    const CallResult result = call();
    ASSERT_EQ(result.outcome, CallOutcome::kReturned) << result.reason;
    const long rounds = board->rounds;
    while (board->rounds < rounds + 2) ::usleep(100);
  }
  EXPECT_EQ(end(), 0) << "bad rounds: " << board->bad;
}

TEST_F(AttachCall, a_caller_that_is_killed_in_the_middle_leaves_the_thread_its_way_home) {
  start([] { compute_until_told(); });
  call_.second = 30'000;  // µs: long enough to be killed in it
  for (int i = 1; i <= 10; ++i) {
    const pid_t caller = ::fork();
    if (caller == 0) call(), ::_exit(0);
    ::usleep(5'000 + 3'000 * static_cast<unsigned>(i));
    ::kill(caller, SIGKILL);
    ::waitpid(caller, nullptr, 0);
    const long rounds = board->rounds;
    while (board->rounds < rounds + 3) ::usleep(1000);
  }
  EXPECT_EQ(end(), 0) << "bad rounds: " << board->bad;
  EXPECT_GT(board->calls, 0) << "no call was ever caught in the middle";
}

TEST_F(AttachCall, a_sleep_is_as_long_as_it_was_to_be_and_no_call_says_eintr) {
  start([] {
    const timespec sleep{0, 400'000'000};
    board->ready = 1;
    while (board->stop == 0) {
      const std::uint64_t begin = now_ns();
      if (nanosleep(&sleep, nullptr) != 0 || now_ns() - begin < 399'000'000) board->bad.fetch_add(1);
      if (::poll(nullptr, 0, 50) != 0) board->bad.fetch_add(1);
      board->rounds.fetch_add(1);
    }
  });
  call_.done = [] { return true; };  // it is watched all the same
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(call().outcome, CallOutcome::kReturned);
    ::usleep(120'000);
  }
  EXPECT_EQ(end(), 0) << "bad rounds: " << board->bad;
}

TEST_F(AttachCall, the_signal_mask_and_signals_that_come_meanwhile_are_kept) {
  start([] {
    struct sigaction action {};
    action.sa_handler = [](int) { board->bad.fetch_add(1); };
    ::sigaction(SIGUSR1, &action, nullptr);
    sigset_t set, now;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    board->ready = 1;
    while (board->stop == 0) carry(1000);
    ::sigprocmask(SIG_BLOCK, nullptr, &now);
    const bool good = sigismember(&now, SIGUSR2) && !sigismember(&now, SIGUSR1) && board->bad == 5;
    ::_exit(good ? 0 : 1);
  });
  call_.second = 20'000;
  for (int i = 0; i < 5; ++i) {
    const pid_t sender = ::fork();
    if (sender == 0) ::usleep(8'000), ::kill(child_, SIGUSR1), ::_exit(0);
    ASSERT_EQ(call().outcome, CallOutcome::kReturned);
    ::waitpid(sender, nullptr, 0);
    // Two of the same signal that wait would be one.
    for (int tries = 0; tries < 5000 && board->bad <= i; ++tries) ::usleep(1000);
  }
  EXPECT_EQ(end(), 0) << "handled " << board->bad << " of 5 signals, or the mask is another one";
}

TEST_F(AttachCall, a_moment_that_is_not_safe_changes_nothing) {
  start([] { compute_until_told(); });
  const CallResult result =
      call_on_thread(*memory_, child_, call_, [](const user_regs_struct&) { return std::string("not now"); });
  EXPECT_EQ(result.outcome, CallOutcome::kUnsafe);
  EXPECT_EQ(result.reason, "not now");
  EXPECT_EQ(end(), 0);
  EXPECT_EQ(board->calls, 0);
}

TEST_F(AttachCall, a_function_that_does_not_return_in_time_is_left_to_itself_and_comes_back) {
  start([] { compute_until_told(); });
  call_.second = 400'000;
  call_.limit_ms = 50;
  const CallResult result = call();
  EXPECT_EQ(result.outcome, CallOutcome::kUnwatched);
  while (board->calls == 0) ::usleep(1000);
  const long rounds = board->rounds;
  while (board->rounds < rounds + 3) ::usleep(1000);
  EXPECT_EQ(end(), 0);
}

TEST(AttachSafety, loader_libc_and_lock_waits_are_no_place_for_a_call) {
  std::vector<Mapping> mappings(4);
  mappings[0] = {.begin = 0x1000,
                 .end = 0x2000,
                 .offset = 0,
                 .executable = true,
                 .keeps_locks = true,
                 .path = "/x/libc.so.6"};
  mappings[1] = {.begin = 0x3000,
                 .end = 0x4000,
                 .offset = 0,
                 .executable = true,
                 .keeps_locks = true,
                 .path = "/x/ld-linux-x86-64.so.2"};
  mappings[2] = {.begin = 0x5000,
                 .end = 0x6000,
                 .offset = 0,
                 .executable = true,
                 .keeps_locks = false,
                 .path = "/x/libtorch_cpu.so"};
  mappings[3] = {.begin = 0x100000,
                 .end = 0x200000,
                 .offset = 0,
                 .executable = false,
                 .keeps_locks = false,
                 .path = "[stack]"};
  user_regs_struct registers{};
  registers.cs = 0x33;
  registers.rsp = 0x1f0000;
  registers.orig_rax = ~0ULL;
  const auto safe = [&](Patience patience = Patience::kFresh) {
    return unsafe_reason(registers, mappings, patience).empty();
  };
  registers.rip = 0x5800;
  EXPECT_TRUE(safe());
  registers.rip = 0x1800;
  EXPECT_FALSE(safe()) << "running in libc";
  registers.orig_rax = 202;  // futex, taken up again
  registers.rax = static_cast<unsigned long long>(-512);
  registers.rsi = 128;
  registers.rdx = 7;
  EXPECT_TRUE(safe());
  registers.rdx = 2;
  EXPECT_FALSE(safe()) << "a lock's wait";
  registers.rdx = 7;
  registers.rip = 0x3800;
  EXPECT_FALSE(safe()) << "a call of the loader's own";
  registers.rip = 0x1800;
  registers.orig_rax = 9;
  EXPECT_FALSE(safe()) << "mmap: malloc makes it with a lock held";
  registers.orig_rax = 232;  // epoll_wait, broken off
  registers.rax = static_cast<unsigned long long>(-4);
  EXPECT_FALSE(safe());
  EXPECT_TRUE(safe(Patience::kSpent));
  registers.rsp = 0x100800;
  EXPECT_FALSE(safe(Patience::kSpent)) << "no room on the stack";
}

}  // namespace
}  // namespace tensortap::probe
