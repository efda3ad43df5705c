#include "probe/attach/thread_call.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "probe/attach/call_frame.h"

namespace tensortap::probe {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kStopLimitNs = 300 * kMs;
constexpr std::uint64_t kDirection = 0x400, kTrap = 0x100;  // flags: the string direction, single step
constexpr std::size_t kMostExtended = 64 * 1024;

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool request(__ptrace_request what, pid_t thread, std::uintptr_t address, std::uintptr_t data) {
  return ::ptrace(what, thread, reinterpret_cast<void*>(address), reinterpret_cast<void*>(data)) == 0;
}

enum class Stop { kInterrupt, kSystemCall, kSignal, kGone, kNone };

struct ThreadState {
  user_regs_struct registers{};
  std::uint64_t mask = 0;
  std::vector<unsigned char> extended;
};

// Sleeping until a traced thread stops: asleep, we are back on a busy processor sooner than if we had looked
// all the time.
class ChildSignal {
 public:
  ChildSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~ChildSignal() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  ChildSignal(const ChildSignal&) = delete;
  ChildSignal& operator=(const ChildSignal&) = delete;

  // A stop that came before we blocked the signal is no loss: every wait ends soon.
  void await(std::uint64_t limit_ns) const {
    const std::uint64_t ns = std::min<std::uint64_t>(limit_ns, 20 * kMs);
    const timespec limit{0, static_cast<long>(ns)};
    sigtimedwait(&set_, nullptr, &limit);
  }

 private:
  sigset_t set_, before_;
};

// A seized thread; let go by the destructor.
class SeizedThread {
 public:
  explicit SeizedThread(pid_t thread) : thread_(thread) {}
  ~SeizedThread() { let_go(); }
  SeizedThread(const SeizedThread&) = delete;
  SeizedThread& operator=(const SeizedThread&) = delete;

  bool seize() {
    seized_ = request(PTRACE_SEIZE, thread_, 0, PTRACE_O_TRACESYSGOOD);
    return seized_;
  }

  // Stops it at the next border of its own code. What signals come on the way it gets.
  bool interrupt() {
    if (!request(PTRACE_INTERRUPT, thread_, 0, 0)) return false;
    return run_until(Stop::kInterrupt, PTRACE_CONT, now_ns() + kStopLimitNs);
  }

  bool read(ThreadState& out) const {
    out.extended.resize(kMostExtended);
    iovec area{out.extended.data(), out.extended.size()};
    if (!request(PTRACE_GETREGS, thread_, 0, reinterpret_cast<std::uintptr_t>(&out.registers))) return false;
    if (!request(PTRACE_GETREGSET, thread_, NT_X86_XSTATE, reinterpret_cast<std::uintptr_t>(&area)))
      return false;
    out.extended.resize(area.iov_len);
    return request(PTRACE_GETSIGMASK, thread_, sizeof out.mask, reinterpret_cast<std::uintptr_t>(&out.mask));
  }
  bool set_registers(const user_regs_struct& registers) const {
    return request(PTRACE_SETREGS, thread_, 0, reinterpret_cast<std::uintptr_t>(&registers));
  }
  bool set_mask(std::uint64_t mask) const {
    return request(PTRACE_SETSIGMASK, thread_, sizeof mask, reinterpret_cast<std::uintptr_t>(&mask));
  }
  bool put_back(ThreadState& state) const {
    iovec area{state.extended.data(), state.extended.size()};
    return set_mask(state.mask) &&
           request(PTRACE_SETREGSET, thread_, NT_X86_XSTATE, reinterpret_cast<std::uintptr_t>(&area)) &&
           set_registers(state.registers);
  }
  bool registers(user_regs_struct& out) const {
    return request(PTRACE_GETREGS, thread_, 0, reinterpret_cast<std::uintptr_t>(&out));
  }

  // Lets it run to its next stop of the wanted kind; signals are passed on.
  bool run_until(Stop wanted, __ptrace_request how, std::uint64_t deadline) {
    while (true) {
      if (stopped_) {
        if (!request(how, thread_, 0, static_cast<std::uintptr_t>(signal_))) return false;
        stopped_ = false;
        signal_ = 0;
      }
      const Stop stop = wait(deadline);
      if (stop == wanted) return true;
      if (stop == Stop::kGone || stop == Stop::kNone) return false;
    }
  }

  bool gone() const { return !seized_; }

  // Only a stopped thread can be let go. One that does not stop even now (it hangs in a device) the kernel
  // lets go when this process ends.
  void let_go() {
    if (seized_ && !stopped_ && request(PTRACE_INTERRUPT, thread_, 0, 0)) wait(now_ns() + kStopLimitNs);
    if (seized_ && stopped_) request(PTRACE_DETACH, thread_, 0, static_cast<std::uintptr_t>(signal_));
    seized_ = stopped_ = false;
  }

 private:
  Stop wait(std::uint64_t deadline) {
    while (true) {
      int status = 0;
      const pid_t got = ::waitpid(thread_, &status, __WALL | WNOHANG);
      if (got == thread_) return classify(status);
      if (got < 0 && errno != EINTR) return lost();
      const std::uint64_t now = now_ns();
      if (now > deadline) return Stop::kNone;
      child_signal_.await(deadline - now);
    }
  }

  Stop lost() {
    seized_ = stopped_ = false;
    return Stop::kGone;
  }

  Stop classify(int status) {
    if (!WIFSTOPPED(status)) return lost();
    stopped_ = true;
    if (status >> 16 == PTRACE_EVENT_STOP) return Stop::kInterrupt;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return Stop::kSystemCall;
    signal_ = WSTOPSIG(status);
    return Stop::kSignal;
  }

  const pid_t thread_;
  ChildSignal child_signal_;
  bool seized_ = false;
  bool stopped_ = false;
  int signal_ = 0;  // to be delivered when it goes on
};

// Everything but what a fault of the function itself would raise.
std::uint64_t all_but_faults() {
  std::uint64_t mask = ~0ULL;
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) mask &= ~(1ULL << (fault - 1));
  return mask;
}

user_regs_struct entry_registers(const user_regs_struct& now, const CallFrame& frame,
                                 const RemoteCall& call) {
  user_regs_struct out = now;
  out.rip = call.function;
  out.rsp = frame.address;
  out.rdi = frame.text;
  out.rsi = call.second;
  out.rax = 0;
  out.orig_rax = ~0ULL;  // no system call: nothing to take up again
  out.eflags &= ~(kDirection | kTrap);
  return out;
}

// Until the thread stands before the frame's rt_sigreturn.
CallOutcome watch_call(SeizedThread& thread, const CallFrame& frame, int limit_ms) {
  const std::uint64_t deadline = now_ns() + static_cast<std::uint64_t>(limit_ms) * kMs;
  user_regs_struct registers;
  while (thread.run_until(Stop::kSystemCall, PTRACE_SYSCALL, deadline)) {
    if (!thread.registers(registers)) return CallOutcome::kRefused;
    if (registers.orig_rax == SYS_rt_sigreturn && registers.rsp == frame.address + 8)
      return CallOutcome::kReturned;
  }
  return thread.gone() ? CallOutcome::kRefused : CallOutcome::kUnwatched;
}

// Instead of rt_sigreturn: from a stop outside of any call, the old registers, so that an interrupted system
// call is taken up where it was (rt_sigreturn would end some of them with EINTR). On the way there it stands
// before rt_sigreturn again, and its registers come last: killed at any point of this, we leave it a way
// home.
bool bring_back(SeizedThread& thread, ThreadState& state, std::uint64_t restorer) {
  user_regs_struct registers;
  if (!thread.registers(registers)) return false;
  registers.orig_rax = ~0ULL;  // leaves this call out
  registers.rip = restorer;
  return thread.set_registers(registers) && thread.interrupt() && thread.put_back(state);
}

// Would rt_sigreturn lose a part of what the thread was at?
bool needs_a_watch(const ThreadState& state) {
  constexpr long kRestartBlock = -516;  // a sleep or wait whose rest the kernel keeps, until an rt_sigreturn
  constexpr std::size_t kInUseAt = 512;
  constexpr std::uint64_t kTiles = 3ULL << 17;
  std::uint64_t in_use = 0;
  if (state.extended.size() >= kInUseAt + sizeof in_use) {
    std::memcpy(&in_use, state.extended.data() + kInUseAt, sizeof in_use);
  }
  return static_cast<long>(state.registers.rax) == kRestartBlock || (in_use & kTiles) != 0;
}

// The thread is let go; it comes back by itself.
CallOutcome wait_until_done(SeizedThread& thread, const RemoteCall& call) {
  thread.let_go();
  const std::uint64_t deadline = now_ns() + static_cast<std::uint64_t>(call.limit_ms) * kMs;
  while (!call.done()) {
    if (now_ns() > deadline) return CallOutcome::kUnwatched;
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  return CallOutcome::kReturned;
}

std::string last_error(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

CallResult call_on_thread(const RemoteMemory& memory, pid_t thread_id, const RemoteCall& call,
                          const MomentCheck& check) {
  CallResult result;
  SeizedThread thread(thread_id);
  if (!thread.seize()) {
    result.reason = last_error("ptrace");
    return result;
  }
  const std::uint64_t begin = now_ns();
  const auto finish = [&](CallOutcome outcome, std::string reason) {
    thread.let_go();
    result.outcome = outcome;
    result.reason = std::move(reason);
    result.stopped_ns = now_ns() - begin;
    return result;
  };
  ThreadState state;
  if (!thread.interrupt()) return finish(CallOutcome::kUnsafe, "it does not stop");
  if (!thread.read(state)) return finish(CallOutcome::kUnsafe, last_error("its registers can't be read"));
  if (std::string reason = check(state.registers); !reason.empty()) {
    return finish(CallOutcome::kUnsafe, std::move(reason));
  }
  const CallFrame frame =
      build_call_frame(state.registers, state.mask, state.extended, call.restorer, call.text);
  if (!memory.write(frame.address, frame.bytes.data(), frame.bytes.size())) {
    return finish(CallOutcome::kUnsafe, "its stack can't be written");
  }
  // Registers first: from then on the frame's own return puts the mask right, too.
  if (!thread.set_registers(entry_registers(state.registers, frame, call)) ||
      !thread.set_mask(all_but_faults())) {
    thread.put_back(state);
    return finish(CallOutcome::kRefused, last_error("its registers can't be set"));
  }
  if (call.done && !needs_a_watch(state)) {
    const CallOutcome outcome = wait_until_done(thread, call);
    return finish(outcome, outcome == CallOutcome::kReturned ? "" : "the call has not done its work");
  }
  const CallOutcome outcome = watch_call(thread, frame, call.limit_ms);
  if (outcome == CallOutcome::kReturned) bring_back(thread, state, call.restorer);
  return finish(outcome, outcome == CallOutcome::kReturned ? "" : "the call did not return");
}

}  // namespace tensortap::probe
