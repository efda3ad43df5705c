// What the command line decides (collectord --help): how much one may use, how long runs stay, what is
// promised at which moment.
//
// Thread rules: plain values, set before anything runs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "collector/limits.h"

namespace tensortap::collector {

// When what was written is also on the medium (README, Durability). Each keeps what the one before it keeps.
enum class Durability : std::uint8_t {
  kNone,    // never asked for: the kernel writes when it likes
  kEnd,     // when the run ends
  kSecond,  // at most a second after it was written
  kFrame,   // before it is acknowledged
};

// Of all connections and runs of one user; 0 = no limit.
struct Quota {
  std::uint64_t bytes = 0;        // on disk, of all its runs that are kept
  std::uint64_t runs = 0;         // open at once
  std::uint64_t rate = 0;         // bytes a second that are taken from its connections; more must wait
  std::uint64_t connections = 0;  // at once
};

// Of finished runs; 0 = no limit.
struct Retention {
  std::chrono::seconds keep{0};  // after their end
  std::uint64_t max_bytes = 0;   // on disk, of all runs together
};

struct Settings {
  std::size_t max_memory = kMaxHeldBytesOfAll;  // bytes of lines that are not written yet, of all connections
  std::size_t max_connections = kMaxConnections;
  bool other_users = false;  // the socket is open to users besides the daemon's own and root
  Quota quota;
  Retention retention;
  Durability durability = Durability::kEnd;
  bool analyze = true;                   // live analyzers and reports
  std::chrono::seconds report_every{0};  // reports of open runs; 0 = at the end only
};

}  // namespace tensortap::collector
