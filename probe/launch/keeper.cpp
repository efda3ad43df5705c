#include "probe/launch/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "probe/launch/ctl_client.h"
#include "probe/launch/fd.h"
#include "probe/launch/launch_processes.h"
#include "probe/launch/places.h"

namespace tensortap::probe {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kStartLimit = 5s;
constexpr auto kEndLimit = 10s;

class Keeper {
 public:
  explicit Keeper(const KeeperPlan& plan) : plan_(plan), socket_(private_socket(plan.folder)) {}

  void run() {
    detach();
    start_collector();
    if (!wait_until_it_answers()) {
      finish(false);
      say(KeeperWord::kFailed);
      return;
    }
    say(KeeperWord::kReady);
    const KeeperWord order = wait_for_order();
    if (order == KeeperWord::kLinger) linger();
    finish(true);
    say(KeeperWord::kDone);
  }

 private:
  // Nothing of the job's terminal and of trace-run's files stays open: a pipe behind trace-run ends with the
  // job.
  void detach() {
    ::setsid();
    ::prctl(PR_SET_NAME, "trace-run-keep");
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);
    if (::chdir("/") != 0) ::_exit(1);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::dup2(plan_.log_fd, STDOUT_FILENO);
    ::dup2(plan_.log_fd, STDERR_FILENO);
    close_others({2, plan_.owner_pidfd, plan_.job_pidfd, plan_.control_fd});
  }

  static void close_others(std::array<int, 4> kept) {
    std::sort(kept.begin(), kept.end());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto first = static_cast<unsigned>(kept[i] + 1);
      const unsigned last = i + 1 < kept.size() ? static_cast<unsigned>(kept[i + 1]) - 1 : ~0U;
      if (kept[i] >= 2 && first <= last) ::close_range(first, last, 0);
    }
  }

  bool job_lives() const {
    pollfd wanted{plan_.job_pidfd, POLLIN, 0};
    return plan_.job_pidfd >= 0 && ::poll(&wanted, 1, 0) == 0;
  }

  void start_collector() {
    const pid_t keeper = ::getpid();
    collector_ = ::fork();
    if (collector_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a killed keeper leaves no collector behind
      if (::getppid() != keeper) ::_exit(1);
      ::signal(SIGPIPE, SIG_DFL);
      ::execl(plan_.collectord.c_str(), "collectord", "--listen", socket_.c_str(), "--state",
              plan_.state.c_str(), static_cast<char*>(nullptr));
      ::dprintf(STDERR_FILENO, "cannot run %s: %m\n", plan_.collectord.c_str());
      ::_exit(127);
    }
    if (collector_ > 0) collector_pidfd_ = open_pidfd(collector_);
  }

  bool collector_ended_within(std::chrono::milliseconds limit) const {
    pollfd wanted{collector_pidfd_, POLLIN, 0};
    return ::poll(&wanted, 1, static_cast<int>(limit.count())) > 0;
  }

  bool wait_until_it_answers() const {
    if (collector_pidfd_ < 0) return false;
    for (const auto start = Clock::now(); Clock::now() - start < kStartLimit;) {
      if (ask_collector({.socket = socket_, .command = "runs", .launch = plan_.launch})) return true;
      if (collector_ended_within(10ms)) return false;
    }
    return false;
  }

  // The end of the control socket is no order: trace-run may have become the job.
  KeeperWord wait_for_order() {
    pollfd wanted[3] = {
        {plan_.owner_pidfd, POLLIN, 0}, {collector_pidfd_, POLLIN, 0}, {plan_.control_fd, POLLIN, 0}};
    while (true) {
      if (::poll(wanted, 3, -1) < 0) continue;
      if (wanted[2].revents != 0) {
        char word = 0;
        if (::read(plan_.control_fd, &word, 1) == 1) return static_cast<KeeperWord>(word);
        wanted[2].fd = -1;
      }
      if (wanted[1].revents != 0) return KeeperWord::kStop;  // the collector itself is gone
      if (wanted[0].revents != 0) return KeeperWord::kLinger;
    }
  }

  void linger() {
    while (true) {
      const bool alive = job_lives() || !processes_of_launch(plan_.launch).empty();
      const auto runs = ask_collector({.socket = socket_,
                                       .command = "wait",
                                       .launch = plan_.launch,
                                       .limit_ms = 10'000,
                                       .interrupt_fd = collector_pidfd_});
      if (!runs && runs.error().code != format::ErrorCode::kTruncated) return;
      const bool open = !runs || std::any_of(runs->begin(), runs->end(),
                                             [](const auto& run) { return run.state == "open"; });
      if (!alive && !open) return;
      if (collector_ended_within(1s)) return;
    }
  }

  void finish(bool answered) {
    int status = -1;
    if (collector_ > 0) {
      ::kill(collector_, SIGTERM);
      if (!collector_ended_within(answered ? kEndLimit : 1s)) ::kill(collector_, SIGKILL);
      ::waitpid(collector_, &status, 0);
    }
    if (!answered) return;  // trace-run reads the log, and may try again in the same folder
    if (status == 0) ::unlink(plan_.log.c_str());
    remove_private_folder(plan_.folder);
  }

  void say(KeeperWord word) const {
    const char byte = static_cast<char>(word);
    (void)!::send(plan_.control_fd, &byte, 1, MSG_NOSIGNAL);
  }

  const KeeperPlan& plan_;
  const std::string socket_;
  pid_t collector_ = -1;
  int collector_pidfd_ = -1;
};

}  // namespace

void keep_collector(const KeeperPlan& plan) {
  Keeper(plan).run();
  ::_exit(0);
}

}  // namespace tensortap::probe
