#include "probe/launch/job.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "probe/launch/launch_processes.h"

namespace tensortap::probe {
namespace {

bool is_sanitizer_runtime(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view prefix :
       {"libasan", "libtsan", "liblsan", "libubsan", "libhwasan", "libclang_rt."}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

sigset_t queued_signals() {
  sigset_t set;
  sigfillset(&set);
  // Faults are this program's own; a broken pipe is ignored; background terminal access stops us as usual.
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE, SIGTTIN, SIGTTOU})
    sigdelset(&set, own);
  return set;
}

bool has_terminal() { return Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)).get() >= 0; }

// The job while it runs.
class Running {
 public:
  Running(pid_t pid, const SignalInbox& inbox) : pid_(pid), inbox_(inbox) {}

  int wait() {
    while (true) {
      signalfd_siginfo info{};
      if (::read(inbox_.fd(), &info, sizeof info) != sizeof info) continue;  // EINTR after a stop
      if (info.ssi_signo == SIGCHLD) {
        if (look()) return exit_code_;
      } else {
        pass_on(info);
      }
    }
  }

 private:
  // From a process (kill, sigqueue, tgkill), not from the kernel's terminal, and not from the job's own `kill
  // 0`.
  void pass_on(const signalfd_siginfo& info) {
    if (info.ssi_code > 0 || static_cast<pid_t>(info.ssi_pid) == pid_) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP) stop_passed_on_ = true;
    ::kill(pid_, signal);
  }

  bool look() {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_) {
      if (WIFEXITED(status)) return exit_code_ = WEXITSTATUS(status), true;
      if (WIFSIGNALED(status)) return exit_code_ = 128 + WTERMSIG(status), true;
      if (WIFSTOPPED(status)) follow_stop(WSTOPSIG(status));
    }
    return false;
  }

  // A job that stopped itself (SIGSTOP, a debugger) is not followed: whoever wakes it does not know of us.
  void follow_stop(int signal) {
    if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) return;
    if (!stop_passed_on_ && !has_terminal()) return;
    stop_passed_on_ = false;
    ::raise(SIGSTOP);
    ::kill(pid_, SIGCONT);  // someone woke us: the job too
  }

  const pid_t pid_;
  const SignalInbox& inbox_;
  int exit_code_ = 0;
  bool stop_passed_on_ = false;
};

}  // namespace

std::string preload_list(std::string_view existing, std::string_view ours) {
  std::string out;
  bool placed = false;
  const auto add = [&out](std::string_view entry) {
    if (!out.empty()) out += ':';
    out += entry;
  };
  while (!existing.empty()) {
    const std::size_t end = existing.find_first_of(": ");
    const std::string_view entry = existing.substr(0, end);
    existing.remove_prefix(end == std::string_view::npos ? existing.size() : end + 1);
    if (entry.empty() || entry == ours) continue;
    if (!placed && !is_sanitizer_runtime(entry)) {
      add(ours);
      placed = true;
    }
    add(entry);
  }
  if (!placed) add(ours);
  return out;
}

void apply_environment(const JobEnvironment& environment) {
  const char* existing = std::getenv("LD_PRELOAD");
  ::setenv("LD_PRELOAD", preload_list(existing == nullptr ? "" : existing, environment.preload).c_str(), 1);
  ::setenv("TENSORTAP_SOCKET", environment.socket.c_str(), 1);
  ::setenv(kLaunchVariable, environment.launch.c_str(), 1);
  if (!environment.capture.empty()) ::setenv("TENSORTAP_CAPTURE", environment.capture.c_str(), 1);
  if (!environment.backends.empty()) ::setenv("TENSORTAP_BACKENDS", environment.backends.c_str(), 1);
  if (environment.gradients) ::setenv("TENSORTAP_GRADIENTS", "1", 1);
  if (!environment.stats.empty()) ::setenv("TENSORTAP_STATS", environment.stats.c_str(), 1);
  if (!environment.when_full.empty()) ::setenv("TENSORTAP_WHEN_FULL", environment.when_full.c_str(), 1);
  if (!environment.log.empty()) ::setenv("TENSORTAP_LOG", environment.log.c_str(), 1);
}

int exec_command(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return errno;
}

SignalInbox::SignalInbox() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  struct sigaction standard {};  // an inherited SIG_IGN would make the job's status unknowable
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &child_before_);
  const sigset_t set = queued_signals();
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  fd_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
}

void SignalInbox::restore_in_child() const {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigaction(SIGCHLD, &child_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void SignalInbox::only_interrupts() {
  ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
  std::array<signalfd_siginfo, 16> ignored;
  while (::read(fd_.get(), ignored.data(), sizeof ignored) > 0) {
  }
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  ::signalfd(fd_.get(), &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

JobEnd run_job(const std::vector<std::string>& command, const JobEnvironment& environment,
               SignalInbox& inbox) {
  JobEnd end;
  int pair[2];
  if (::pipe2(pair, O_CLOEXEC) != 0) {
    end.exec_error = errno;
    return end;
  }
  const Fd reader(pair[0]);
  Fd writer(pair[1]);
  end.pid = ::fork();
  if (end.pid == 0) {
    inbox.restore_in_child();
    apply_environment(environment);
    const int error = exec_command(command);
    (void)!::write(writer.get(), &error, sizeof error);
    ::_exit(127);
  }
  if (end.pid < 0) {
    end.exec_error = errno;
    return end;
  }
  writer.reset();
  ssize_t got;  // end of file: the exec closed the pipe
  do {
    got = ::read(reader.get(), &end.exec_error, sizeof end.exec_error);
  } while (got < 0 && errno == EINTR);
  end.exit_code = Running(end.pid, inbox).wait();
  return end;
}

}  // namespace tensortap::probe
