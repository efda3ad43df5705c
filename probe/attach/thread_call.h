// Makes one thread of a running process call a function of that process, and go on where it was.
//
// Only that thread stops (PTRACE_SEIZE, PTRACE_INTERRUPT), for tens of microseconds, to put the call in
// place. Then it goes by itself: call_frame.h's stack brings it back to what it did, whatever becomes of us.
// Where that would lose something (the rest of a sleep that was under way, AMX registers), or when the caller
// can't tell by itself that the function has done its work, the thread is watched, from system call to system
// call, and everything is put back by hand.
//
// Thread rules: ptrace belongs to a thread: every call of one process from the same one. It reaps stops of
// the given thread only.
//
//   CallResult result = call_on_thread(memory, thread, call, [&](const auto& registers) { return
//   unsafe_reason(…); }); if (result.outcome == CallOutcome::kReturned) …
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <functional>
#include <string>

#include "probe/attach/remote_memory.h"

namespace tensortap::probe {

struct RemoteCall {
  std::uint64_t function = 0;
  std::uint64_t restorer =
      0;             // `mov $15,%rax; syscall` in the process (libc has one for its own signal handlers)
  std::string text;  // first argument: the address of a copy of it
  std::uint64_t second = 0;  // second argument
  std::function<bool()>
      done{};             // has the function done its work? Seen from outside; none: the call is watched
  int limit_ms = 10'000;  // for the function; it goes on behind that, unwatched
};

enum class CallOutcome {
  kReturned,  // or done: it is about to
  kUnsafe,    // not here: `reason`; nothing was changed
  kRefused,   // the kernel did not let us (errno text in `reason`), or the thread ended
  kUnwatched  // the function has not returned within the limit: the thread was let go inside it
};

struct CallResult {
  CallOutcome outcome = CallOutcome::kRefused;
  std::string reason;
  std::uint64_t stopped_ns = 0;  // how long the thread did not do its own work, at most
};

// "" = the moment is safe.
using MomentCheck = std::function<std::string(const user_regs_struct&)>;

CallResult call_on_thread(const RemoteMemory& memory, pid_t thread, const RemoteCall& call,
                          const MomentCheck& check);

}  // namespace tensortap::probe
