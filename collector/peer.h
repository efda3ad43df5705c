// The process at the other end of a socket, as the kernel says it (SO_PEERCRED), never as it says itself.
//
//   Peer peer = identify_peer(socket_fd);
//   peer.is_dead();          // its pidfd, opened at accept: a pid that was given to another process cannot
//   deceive
//
// Thread rules: a plain value; `is_dead` only polls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/unique_fd.h"

namespace tensortap::collector {

struct Peer {
  std::int64_t pid = 0;  // 0: not visible from here (another pid namespace)
  std::uint64_t uid = 0;
  std::uint64_t start_time = 0;      // 0 = not known
  std::string exe;                   // /proc/<pid>/exe at accept, "" when not readable
  std::vector<std::string> command;  // /proc/<pid>/cmdline
  UniqueFd pidfd;                    // empty when the kernel gave none

  bool is_dead() const;
};

Peer identify_peer(int socket);

// Start time of a process in clock ticks after boot (field 22 of /proc/<pid>/stat); 0 when there is no such
// process.
std::uint64_t process_start_time(std::int64_t pid);
std::string process_exe(std::int64_t pid);

// A process known from a run.json; empty when it is dead, or its pid belongs to another process by now.
UniqueFd open_same_process(std::int64_t pid, std::uint64_t start_time);
bool pidfd_is_dead(int pidfd);  // also when a zombie is left; not while a thread of it runs

}  // namespace tensortap::collector
