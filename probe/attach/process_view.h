// What /proc says of another process: status, mappings, threads, executable. Nothing is stopped or changed.
//
// Thread rules: none of its own. Everything is a moment's picture: the process goes on, and may end.
//
//   auto status = read_status(pid);
//   if (!status) …no such process…
//   for (const Mapping& mapping : read_mappings(pid)) …
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensortap::probe {

struct ProcessStatus {
  std::string name;
  char state = '?';  // R, S, D, T (stopped), t (traced), Z (ended), …
  pid_t thread_group = 0;
  pid_t tracer = 0;
  uid_t real_uid = 0, effective_uid = 0, saved_uid = 0;
  gid_t effective_gid = 0;
  bool shadow_stack = false;  // return addresses are checked by the processor
};

// nullopt: no such process.
std::optional<ProcessStatus> read_status(pid_t pid);

struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  bool executable = false;
  bool keeps_locks = false;  // see safe_moment.h
  std::string path;          // "" anonymous, "[stack]", …; without " (deleted)"
  bool holds(std::uint64_t address) const { return address >= begin && address < end; }
  std::string_view file() const;  // last part of the path
};

// In the order of their addresses; empty when they may not be read.
std::vector<Mapping> read_mappings(pid_t pid);

// Where the file's offset 0 is mapped, for the first file whose name `begins` so; nullptr when there is none.
const Mapping* find_image(const std::vector<Mapping>& mappings, std::string_view begins);

// What a thread is doing (/proc/PID/task/TID/syscall).
struct ThreadActivity {
  bool readable = false;
  bool running = false;  // on a processor, or about to be
  long call = -1;        // system call it sleeps in; -1 = none
  std::uint64_t arguments[6] = {};
};
ThreadActivity read_activity(pid_t pid, pid_t thread);
std::vector<pid_t> read_threads(pid_t pid);

enum class ExecutableKind { kDynamic, kStatic, kOtherMachine, kUnreadable };
ExecutableKind executable_kind(pid_t pid);

std::string executable_path(pid_t pid);  // "" when not known
std::string read_command(pid_t pid);     // words joined by blanks
// A variable of the environment that the process was started with; "" when it is not there.
std::string started_with(pid_t pid, std::string_view variable);

// Do both processes see the same files and pids? The name of what differs ("mount", "pid", "root folder"), ""
// when all is equal, "?" when it may not be asked.
std::string differing_namespace(pid_t pid);

}  // namespace tensortap::probe
