#include "probe/launch/private_collector.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "probe/launch/keeper.h"
#include "probe/launch/places.h"

namespace tensortap::probe {
namespace {

using format::Error;
using format::ErrorCode;

constexpr int kReadyLimitMs = 8000;  // the keeper itself gives up after 5 s
constexpr int kDoneLimitMs = 15000;

Error system_error(const std::string& what) {
  return {.code = ErrorCode::kIo, .message = what + ": " + std::strerror(errno)};
}

// '\0' when nothing came in time or the other side is gone.
KeeperWord receive(int fd, int limit_ms) {
  pollfd wanted{fd, POLLIN, 0};
  char byte = 0;
  if (::poll(&wanted, 1, limit_ms) > 0) (void)!::read(fd, &byte, 1);
  return static_cast<KeeperWord>(byte);
}

void send_word(int fd, KeeperWord word) {
  const char byte = static_cast<char>(word);
  (void)!::send(fd, &byte, 1, MSG_NOSIGNAL);
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it said nothing" : last;
}

bool state_is_taken(const std::string& state) {
  const Fd lock(::open((state + "/collectord.lock").c_str(), O_RDONLY | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Starts the keeper. As a child, or, when this process becomes the job, as an orphan: then 0.
pid_t fork_keeper(const KeeperPlan& plan, bool orphan) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (orphan && ::fork() != 0) ::_exit(0);
    keep_collector(plan);
  }
  if (child > 0 && orphan) {
    ::waitpid(child, nullptr, 0);
    return 0;
  }
  return child;
}

}  // namespace

format::Result<PrivateCollector> PrivateCollector::start(const PrivateCollectorPlace& place) {
  if (auto made = make_state_folder(place.state); !made.ok()) return made.error();
  auto collector = start_in(place, place.state);
  if (collector || !state_is_taken(place.state)) return collector;
  // Another collector (a daemon on another socket, another trace-run) owns that folder: keep this run's
  // traces beside its.
  const std::string own = place.state + "/private/" + place.launch.substr(0, 8);
  if (auto made = make_state_folder(own); !made.ok()) return made.error();
  return start_in(place, own);
}

format::Result<PrivateCollector> PrivateCollector::start_in(const PrivateCollectorPlace& place,
                                                            const std::string& state) {
  const auto program = find_program("collectord");
  if (!program) {
    return Error{.code = ErrorCode::kNotFound,
                 .message = program.error().message +
                            ": install it, or start one yourself and name its socket with --socket"};
  }
  KeeperPlan plan{
      .collectord = *program, .folder = place.folder, .state = state, .log = {}, .launch = place.launch};
  plan.log = state + "/private-" + place.launch.substr(0, 8) + ".log";
  const Fd log(::open(plan.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return system_error("can't write the collector's log " + plan.log);
  const Fd owner(open_pidfd(::getpid()));
  if (!owner) return system_error("pidfd_open (Linux 5.3 or newer is needed)");
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return system_error("socketpair");
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  plan.log_fd = log.get();
  plan.owner_pidfd = owner.get();
  plan.control_fd = theirs.get();
  const Fd job(place.job > 0 ? open_pidfd(place.job) : -1);
  plan.job_pidfd = job.get();

  PrivateCollector out;
  out.socket_ = private_socket(place.folder);
  out.state_ = state;
  const pid_t keeper = fork_keeper(plan, place.becomes_job);
  if (keeper < 0) return system_error("can't fork");
  theirs.reset();  // so that a keeper that dies is an end of file here
  if (keeper > 0) out.keeper_ = keeper;
  if (receive(ours.get(), kReadyLimitMs) == KeeperWord::kReady) {
    out.control_ = std::move(ours);
    return out;
  }
  if (out.keeper_ > 0) ::waitpid(out.keeper_, nullptr, 0);
  const std::string reason = last_line(plan.log);
  ::unlink(plan.log.c_str());
  return Error{.code = ErrorCode::kIo, .message = "the private collector did not start: " + reason};
}

void PrivateCollector::stop() {
  if (!control_) return;
  send_word(control_.get(), KeeperWord::kStop);
  const bool done = receive(control_.get(), kDoneLimitMs) == KeeperWord::kDone;
  control_.reset();
  if (done && keeper_ > 0) ::waitpid(keeper_, nullptr, 0);
}

void PrivateCollector::linger() {
  if (!control_) return;
  send_word(control_.get(), KeeperWord::kLinger);
  control_.reset();
}

}  // namespace tensortap::probe
