#include "collector/listener.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "format/default_paths.h"

namespace tensortap::collector {

using format::Error;
using format::ErrorCode;

namespace {

constexpr int kBacklog = 512;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd make_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

format::Status clear_stale(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument,
                 path + " exists and is no socket; remove it, or choose another path with --listen PATH"};
  }
  const UniqueFd probe = make_socket();
  const sockaddr_un address = address_of(path);
  const int connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connected == 0 || errno == EAGAIN) {  // EAGAIN: its backlog is full
    return Error{ErrorCode::kRejected,
                 "a collectord listens on " + path +
                     " already; use that one, or choose another path with --listen PATH"};
  }
  if (errno != ECONNREFUSED) {
    return Error{ErrorCode::kIo, "cannot tell whether " + path + " is in use (" + std::strerror(errno) +
                                     "); choose another path with --listen PATH"};
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Error{ErrorCode::kIo, "cannot remove the stale socket " + path + ": " + std::strerror(errno)};
  }
  return {};
}

format::Status give_access(const std::string& path, const SocketAccess& access) {
  if (!access.group.empty()) {
    char buffer[16384];
    group entry{};
    group* found = nullptr;
    if (::getgrnam_r(access.group.c_str(), &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "there is no group " + access.group + " (--group)"};
    }
    if (::lchown(path.c_str(), static_cast<uid_t>(-1), found->gr_gid) != 0) {
      return Error{ErrorCode::kInvalidArgument, "cannot give " + path + " to the group " + access.group +
                                                    ": " + std::strerror(errno) +
                                                    "; --group takes a group that this user is in"};
    }
  }
  if (::chmod(path.c_str(), access.mode) != 0) {
    return Error{ErrorCode::kIo, "cannot set the mode of " + path + ": " + std::strerror(errno)};
  }
  return {};
}

}  // namespace

format::Result<Listener> Listener::open(const std::string& path, const SocketAccess& access) {
  if (path.empty())
    return Error{ErrorCode::kInvalidArgument, "the socket path is empty; give one with --listen PATH"};
  if (path.size() > format::kMaxSocketPathBytes) {
    return Error{ErrorCode::kInvalidArgument, "the socket path has " + std::to_string(path.size()) +
                                                  " bytes, a Unix socket takes at most " +
                                                  std::to_string(format::kMaxSocketPathBytes) +
                                                  "; choose a shorter one with --listen PATH"};
  }
  if (format::Status status = clear_stale(path); !status) return status.error();
  UniqueFd fd = make_socket();
  const sockaddr_un address = address_of(path);
  const mode_t before = ::umask(0177);  // never open to others, not for a moment
  const int bound = fd ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) : -1;
  const int error_number = errno;
  ::umask(before);
  if (bound != 0) {
    const ErrorCode code = error_number == EADDRINUSE ? ErrorCode::kRejected : ErrorCode::kInvalidArgument;
    return Error{code, "cannot listen on " + path + ": " + std::strerror(error_number) +
                           "; choose a path in a folder that exists and can be written, with --listen PATH"};
  }
  // Nobody can connect before it listens.
  if (format::Status given = give_access(path, access); !given) {
    ::unlink(path.c_str());
    return given.error();
  }
  struct stat status {};
  if (::listen(fd.get(), kBacklog) != 0 || ::lstat(path.c_str(), &status) != 0) {
    const Error error{ErrorCode::kIo, "cannot listen on " + path + ": " + std::strerror(errno)};
    ::unlink(path.c_str());
    return error;
  }
  return Listener(path, std::move(fd), status.st_dev, status.st_ino);
}

Listener::~Listener() {
  if (path_.empty()) return;  // moved from
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace tensortap::collector
