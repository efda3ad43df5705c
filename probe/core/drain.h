// Takes records out of the rings, merges the threads by time, and renders them as lines.
//
//   drain.collect(text, cursors);          // everything published up to now, at most kBatchBytes of text
//   …send text and a batch line with cursors…
//   drain.release(cursors);                // after the daemon's acknowledgement
//
// A cycle takes all rings' heads at one moment and merges up to them, so the stream's disorder is what a
// thread needs between taking its clock and publishing its record. Positions: monotone byte counts
// (ring_layout.h); beside each the number of records before it, which the daemon's ledger compares with what
// the threads say they wrote. Thread rules: one thread (the session's lock).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/ring_lines.h"
#include "probe/core/shared_memory.h"

namespace tensortap::probe {

// Everything before `position` of a ring; `records` of them, pads left out, since the ring was made.
struct RingCursor {
  std::uint32_t ring = 0;
  std::uint64_t position = 0;
  std::uint64_t records = 0;
  friend bool operator==(const RingCursor& a, const RingCursor& b) noexcept {
    return a.ring == b.ring && a.position == b.position && a.records == b.records;
  }
};
using Cursors = std::vector<RingCursor>;

class Drain {
 public:
  explicit Drain(SharedMemory& memory);

  // Bytes that are published and not yet collected.
  std::uint64_t pending_bytes() const noexcept;
  // Appends at most about kBatchBytes. False: nothing was there. `cursors` holds the new position of each
  // ring that was read.
  bool collect(std::string& text, Cursors& cursors);
  // The daemon has these on disk: segments go back to the pool, rings of ended threads become free.
  void release(const Cursors& cursors) noexcept;
  // After a reconnect: go on from what the daemon has (a ring that is not named: from what was released).
  void rewind(const Cursors& cursors) noexcept;

  static constexpr std::size_t kBatchBytes = 1 << 20;

 private:
  struct Source {
    std::uint64_t time_ns = 0;
    std::uint32_t ring = 0;
    std::uint64_t position = 0;
    std::uint64_t head = 0;
    const unsigned char* record = nullptr;
    std::uint64_t available = 0;
  };
  bool settle(Source& source) noexcept;
  void take_heads();

  SharedMemory& memory_;
  format::StringTable strings_;
  std::vector<std::uint64_t> read_;              // by ring
  std::vector<std::uint64_t> records_;           // by ring: how many lie before read_
  std::vector<std::uint64_t> released_records_;  // by ring: how many lie before what was released
  std::vector<Source> sources_;                  // a heap by (time, ring): the cycle that is going on
};

}  // namespace tensortap::probe
