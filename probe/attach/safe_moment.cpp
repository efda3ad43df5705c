#include "probe/attach/safe_moment.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "probe/attach/remote_image.h"

namespace tensortap::probe {
namespace {

// The kernel's own answers to "what becomes of this call", which no program ever sees.
constexpr long kRestartSys = -512, kRestartNoIntr = -513, kRestartNoHand = -514, kRestartBlock = -516;

constexpr std::uint64_t kStackForTheCall = 96 * 1024;

constexpr long kPatient[] = {
    SYS_read,      SYS_write,   SYS_readv,         SYS_writev,          SYS_pread64,
    SYS_poll,      SYS_ppoll,   SYS_select,        SYS_pselect6,        SYS_futex,
    SYS_nanosleep, SYS_wait4,   SYS_waitid,        SYS_clock_nanosleep, SYS_pause,
    SYS_recvfrom,  SYS_recvmsg, SYS_sendto,        SYS_sendmsg,         SYS_accept,
    SYS_accept4,   SYS_connect, SYS_rt_sigsuspend, SYS_restart_syscall, SYS_sched_yield};
constexpr long kBrokenOff[] = {SYS_epoll_wait,   SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait,
                               SYS_io_getevents, SYS_semtimedop,  SYS_semop,        SYS_msgrcv};

template <std::size_t n>
bool is_one_of(long call, const long (&calls)[n]) {
  return std::find(std::begin(calls), std::end(calls), call) != std::end(calls);
}

// What libc itself uses to wait for its own locks, and mutexes too: such a thread may hold others.
bool waits_for_a_lock(long call, std::uint64_t operation, std::uint64_t value) {
  return call == SYS_futex && (operation & FUTEX_CMD_MASK) == FUTEX_WAIT && value == 2;
}

bool starts_with(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

// The unwinder walks the loader's list.
bool keeps_locks_by_name(std::string_view file) {
  for (const std::string_view name :
       {"ld-linux", "ld-2.", "libc.so", "libc-2.", "libpthread", "libdl", "libgcc_s"}) {
    if (starts_with(file, name)) return true;
  }
  return false;
}

const Mapping* mapping_of(const std::vector<Mapping>& mappings, std::uint64_t address) {
  for (const Mapping& mapping : mappings) {
    if (mapping.holds(address)) return &mapping;
  }
  return nullptr;
}

std::string stack_problem(const user_regs_struct& registers, const std::vector<Mapping>& mappings) {
  const Mapping* stack = mapping_of(mappings, registers.rsp);
  if (stack == nullptr) return "its stack is not known";
  const bool grows = stack->path == "[stack]";
  const std::uint64_t wanted = grows ? kStackForTheCall / 3 : kStackForTheCall;
  return registers.rsp - stack->begin < wanted ? "its stack is nearly full" : "";
}

std::string call_problem(const user_regs_struct& registers, const Mapping& code, Patience patience) {
  const auto call = static_cast<long>(registers.orig_rax);
  if (starts_with(code.file(), "ld-")) return "inside the loader";
  const bool again = call_is_taken_up_again(registers);
  const bool broken_off = static_cast<long>(registers.rax) == -EINTR && is_one_of(call, kBrokenOff);
  if (broken_off) return patience == Patience::kSpent ? "" : "in a call that a stop breaks off";
  if (!again) return "inside libc";
  if (!is_one_of(call, kPatient)) return "in a system call that libc may make with a lock held";
  return waits_for_a_lock(call, registers.rsi, registers.rdx) ? "waiting for a lock" : "";
}

}  // namespace

bool call_is_taken_up_again(const user_regs_struct& registers) {
  const auto result = static_cast<long>(registers.rax);
  return static_cast<long>(registers.orig_rax) >= 0 && (result == kRestartSys || result == kRestartNoIntr ||
                                                        result == kRestartNoHand || result == kRestartBlock);
}

void mark_lock_keepers(std::vector<Mapping>& mappings, const RemoteMemory& memory) {
  std::set<std::string> files;
  for (const Mapping& mapping : mappings) {
    if (mapping.offset != 0 || mapping.path.empty() || mapping.path[0] != '/') continue;
    const auto image =
        keeps_locks_by_name(mapping.file()) ? std::nullopt : RemoteImage::at(memory, mapping.begin);
    if (keeps_locks_by_name(mapping.file()) || (image && image->symbol("malloc"))) files.insert(mapping.path);
  }
  for (Mapping& mapping : mappings) mapping.keeps_locks = files.count(mapping.path) != 0;
}

std::vector<pid_t> candidate_threads(pid_t pid, Patience patience) {
  std::vector<pid_t> asleep, running, broken_off;
  for (const pid_t thread : read_threads(pid)) {
    const ThreadActivity activity = read_activity(pid, thread);
    if (!activity.readable) continue;
    if (activity.running) {
      running.push_back(thread);
    } else if (is_one_of(activity.call, kBrokenOff)) {
      broken_off.push_back(thread);
    } else if (is_one_of(activity.call, kPatient) &&
               !waits_for_a_lock(activity.call, activity.arguments[1], activity.arguments[2])) {
      asleep.push_back(thread);
    }
  }
  asleep.insert(asleep.end(), running.begin(), running.end());
  if (patience == Patience::kSpent) asleep.insert(asleep.end(), broken_off.begin(), broken_off.end());
  return asleep;
}

std::string unsafe_reason(const user_regs_struct& registers, const std::vector<Mapping>& mappings,
                          Patience patience) {
  std::string problem = stack_problem(registers, mappings);
  if (!problem.empty()) return problem;
  const Mapping* code = mapping_of(mappings, registers.rip);
  if (code == nullptr) return "at an unknown place";
  if (static_cast<long>(registers.orig_rax) >= 0) return call_problem(registers, *code, patience);
  if (registers.cs != 0x33) return "in 32-bit code";
  return code->keeps_locks ? "inside " + std::string(code->file()) : "";
}

}  // namespace tensortap::probe
