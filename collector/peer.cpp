#include "collector/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <climits>
#include <cstdlib>

namespace tensortap::collector {

namespace {

constexpr std::size_t kMaxProcBytes = 256 * 1024;  // command lines can be long

std::string proc_file(std::int64_t pid, const char* name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd && text.size() < kMaxProcBytes) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

std::vector<std::string> process_command(std::int64_t pid) {
  std::vector<std::string> command;
  const std::string text = proc_file(pid, "cmdline");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    command.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return command;
}

UniqueFd open_pidfd(std::int64_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

}  // namespace

bool pidfd_is_dead(int pidfd) {
  pollfd poll_for{pidfd, POLLIN, 0};
  return ::poll(&poll_for, 1, 0) == 1;
}

bool Peer::is_dead() const { return pidfd ? pidfd_is_dead(pidfd.get()) : false; }

Peer identify_peer(int socket) {
  Peer peer;
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  if (peer.pid <= 0) return peer;
  peer.pidfd = open_pidfd(peer.pid);
  peer.start_time = process_start_time(peer.pid);
  peer.exe = process_exe(peer.pid);
  peer.command = process_command(peer.pid);
  return peer;
}

std::uint64_t process_start_time(std::int64_t pid) {
  const std::string text = proc_file(pid, "stat");
  // The name in parentheses may hold anything: go on behind the last one.
  std::size_t at = text.rfind(')');
  if (at == std::string::npos || at + 2 >= text.size()) return 0;
  at += 2;
  for (int field = 3; field < 22; ++field) {
    at = text.find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  return std::strtoull(text.c_str() + at, nullptr, 10);
}

std::string process_exe(std::int64_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/exe";
  char buffer[PATH_MAX];
  const ssize_t got = ::readlink(path.c_str(), buffer, sizeof buffer);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
}

UniqueFd open_same_process(std::int64_t pid, std::uint64_t start_time) {
  if (pid <= 0 || start_time == 0) return {};
  UniqueFd pidfd = open_pidfd(pid);
  // Opened first, compared then: the descriptor stays with the process that it was opened for.
  if (!pidfd || process_start_time(pid) != start_time || pidfd_is_dead(pidfd.get())) return {};
  return pidfd;
}

}  // namespace tensortap::collector
