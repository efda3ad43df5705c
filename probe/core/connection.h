// The probe's end of the socket: connect, hand over the memfd, send whole texts, receive lines.
//
// Never raises SIGPIPE; every wait is bounded; the descriptor is kept high and checked before use: a job that
// closes all descriptors must not make us write into one of its own files. Thread rules: the session's lock
// protects it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tensortap::probe {

class Connection {
 public:
  // Connects to the Unix socket at `path`. False: nobody listens there (or not within 100 ms).
  bool open(const std::string& path) noexcept;
  void close() noexcept;
  // In a forked child: the parent's socket is not ours.
  void abandon() noexcept { close(); }
  bool is_open() const noexcept { return fd_ >= 0; }
  int fd() const noexcept { return fd_; }  // to wait for; -1 when closed

  // Sends all of `text`, with `pass_fd` beside its first byte (-1: none). `stop` is asked every 20 ms while
  // the peer does not read. False: the connection is lost (and closed), or stopped.
  bool send(std::string_view text, int pass_fd, bool (*stop)(void*), void* context) noexcept;

  // Takes what has arrived, at most waiting `wait_ms`. False: the connection is lost (and closed).
  bool receive(int wait_ms) noexcept;
  // The next whole line that was received, without its LF.
  bool next_line(std::string& line);

 private:
  bool still_ours() noexcept;

  int fd_ = -1;
  ino_t inode_ = 0;
  std::string received_;
};

}  // namespace tensortap::probe
