// The job: started in trace-run's own process group, its signals passed on, its end taken as a shell takes
// it.
//
// Signals: what the terminal or a `kill` of the whole group sends, the job gets itself. What is sent to
// trace-run alone (by kill, timeout, a scheduler) is passed on. When the job is stopped from the terminal,
// trace-run stops too, so that the shell gets its prompt back.
//
// Thread rules: one thread; SignalInbox changes the signal mask of the process, the job is given back the old
// one.
//
//   SignalInbox inbox;
//   const JobEnd end = run_job(command, environment, inbox);
//   return end.exit_code;
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "probe/launch/fd.h"

namespace tensortap::probe {

struct JobEnvironment {
  std::string preload;  // path of libtensortap.so
  std::string socket;
  std::string launch;
  std::string capture{};      // TENSORTAP_CAPTURE; "" leaves it as it is
  std::string backends = {};  // TENSORTAP_BACKENDS, the folder of backends built on the spot; "" leaves it
  std::string log{};          // TENSORTAP_LOG; "" leaves it as it is
  bool gradients = false;     // TENSORTAP_GRADIENTS; false leaves it as it is
  std::string stats{};        // TENSORTAP_STATS; "" leaves it as it is
  std::string when_full{};    // TENSORTAP_WHEN_FULL; "" leaves it as it is
};

// LD_PRELOAD's new value: ours first, so that what other preloaded libraries open passes by us; but behind a
// sanitizer's run-time, which insists on being the first.
std::string preload_list(std::string_view existing, std::string_view ours);

// Into this process's environment.
void apply_environment(const JobEnvironment& environment);

// Becomes the command; returns errno when it can't.
int exec_command(const std::vector<std::string>& command);

// Signals for trace-run as a queue: blocked and read from a descriptor.
class SignalInbox {
 public:
  SignalInbox();
  int fd() const { return fd_.get(); }
  void restore_in_child() const;  // the mask and dispositions that trace-run was started with
  // From now on only what a user sends to end a wait: SIGINT, SIGTERM, SIGHUP, SIGQUIT. Throws away what came
  // before.
  void only_interrupts();

 private:
  Fd fd_;
  sigset_t before_;
  struct sigaction child_before_;
  struct sigaction pipe_before_;
};

struct JobEnd {
  int exit_code = 0;   // as a shell says it: status, or 128 + signal
  int exec_error = 0;  // errno when the command could not be executed
  pid_t pid = 0;
};

JobEnd run_job(const std::vector<std::string>& command, const JobEnvironment& environment,
               SignalInbox& inbox);

}  // namespace tensortap::probe
