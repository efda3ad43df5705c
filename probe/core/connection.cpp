#include "probe/core/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace tensortap::probe {

namespace {

constexpr std::size_t kMaxReceived = 1 << 20;  // a daemon that says more than this without an LF is none

}  // namespace

bool Connection::open(const std::string& path) noexcept {
  close();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return false;
  int result = connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address);
  for (int tries = 0; result != 0 && errno == EAGAIN && tries < 10; ++tries) {  // its backlog is full
    poll(nullptr, 0, 10);
    result = connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  if (result != 0) {
    ::close(made);
    return false;
  }
  fd_ = made;
  if (const int high = fcntl(made, F_DUPFD_CLOEXEC, 48); high >= 0) {  // as shared_memory.cpp's
    ::close(made);
    fd_ = high;
  }
  struct stat status {};
  if (fstat(fd_, &status) == 0) inode_ = status.st_ino;
  received_.clear();
  return true;
}

void Connection::close() noexcept {
  if (fd_ >= 0 && still_ours()) ::close(fd_);
  fd_ = -1;
}

bool Connection::still_ours() noexcept {
  struct stat status {};
  if (fd_ >= 0 && fstat(fd_, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode_)
    return true;
  fd_ = -1;  // the job closed it, and may have used the number again
  return false;
}

bool Connection::send(std::string_view text, int pass_fd, bool (*stop)(void*), void* context) noexcept {
  while (!text.empty()) {
    if (!still_ours()) return false;
    iovec part{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (pass_fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &pass_fd, sizeof pass_fd);
    }
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
      pass_fd = -1;
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (stop != nullptr && stop(context)) return false;
      pollfd ready{fd_, POLLOUT, 0};
      poll(&ready, 1, 20);
      continue;
    }
    close();
    return false;
  }
  return true;
}

bool Connection::receive(int wait_ms) noexcept {
  if (!still_ours()) return false;
  if (wait_ms > 0) {
    pollfd ready{fd_, POLLIN, 0};
    poll(&ready, 1, wait_ms);
  }
  char buffer[4096];
  for (;;) {
    const ssize_t got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) {
      try {
        received_.append(buffer, static_cast<std::size_t>(got));
      } catch (...) {
        break;
      }
      if (received_.size() > kMaxReceived) break;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    break;  // end of file, or an error
  }
  close();
  return false;
}

bool Connection::next_line(std::string& line) {
  const std::size_t end = received_.find('\n');
  if (end == std::string::npos) return false;
  line.assign(received_, 0, end);
  received_.erase(0, end + 1);
  return true;
}

}  // namespace tensortap::probe
