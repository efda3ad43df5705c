// The daemon's socket file: made for its owner alone (0600) unless told otherwise, removed when the daemon
// goes.
//
//   Result<Listener> listener = Listener::open("/run/user/1000/tensortap.sock");
//   Result<Listener> listener = Listener::open("/run/tensortap.sock", {0660, "tensortap"});
//
// A file that a daemon left which is dead is replaced; the socket of one that lives, or a file that is no
// socket, is not touched. Thread rules: a plain value. Ownership: owns the file until release of its
// descriptor and beyond.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "collector/unique_fd.h"
#include "format/result.h"

namespace tensortap::collector {

// Whoever may write to the socket file may connect.
struct SocketAccess {
  mode_t mode = 0600;
  std::string group;  // "" = as it comes
};

class Listener {
 public:
  // kInvalidArgument: a path or a group that cannot work; kRejected: taken; kIo: the system refused.
  static format::Result<Listener> open(const std::string& path, const SocketAccess& access = {});
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = default;
  ~Listener();  // removes the file if it is still ours

  const std::string& path() const { return path_; }
  int release_fd() { return fd_.release(); }

 private:
  Listener(std::string path, UniqueFd fd, std::uint64_t device, std::uint64_t inode)
      : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}

  std::string path_;
  UniqueFd fd_;
  std::uint64_t device_;
  std::uint64_t inode_;
};

}  // namespace tensortap::collector
