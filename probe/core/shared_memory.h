// The session's memfd: made once per process, sealed, mapped; layout in format/ring_layout.h.
//
// Thread rules: create() once, before any producer; the mapping lives as long as the process (a thread may be
// inside a callback at any moment). In a forked child the mapping is not there (MADV_DONTFORK): the child
// must drop its pointers before it touches them, and makes its own.
#pragma once

#include <cstdint>

#include "format/ring_layout.h"

namespace tensortap::probe {

struct SharedMemory {
  int fd = -1;
  unsigned char* base = nullptr;
  format::SessionHeader* header = nullptr;
  format::RingHeader* rings = nullptr;
  char* strings = nullptr;
  unsigned char* pool = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t populated = 0;  // segments below have their pages; the drain's
  // A full ring's thread waits for room (policy `block`) instead of dropping. Only while somebody drains: set
  // and taken back by the session, and by a thread that has waited for kPatienceNs in vain.
  std::atomic<bool> wait_for_room{false};
  std::atomic<bool> waited_in_vain{false};  // this capture drops from now on

  // `pool_bytes` is rounded to whole segments. False: no memfd, or no address space (errno says why).
  bool create(std::uint64_t pool_bytes) noexcept;

  // Its pages go back to the system, and it reads as zeros; begin_again makes it a new session's. Neither a
  // thread of the job nor the daemon may still use it.
  void give_back() noexcept;
  void begin_again() noexcept;

  // A free segment's index + 1, or 0 when the pool is empty. Lock-free.
  std::uint32_t take_segment() noexcept;
  void give_segment(std::uint32_t index_plus_one) noexcept;

  // Waits for a moment, on a thread of the job whose ring is full since `since_ns` (0: since now; set).
  // False: it is not to wait, or not any more.
  bool wait_a_moment(std::uint64_t& since_ns) noexcept;

  // The drain's thread, often: gives the next free segments their pages, so that no job thread takes the
  // faults.
  void populate_ahead() noexcept;

  unsigned char* segment(std::uint32_t index_plus_one) const noexcept {
    return pool + (index_plus_one - 1) * format::kSegmentBytes;
  }
  void count(format::Counter counter, std::uint64_t add = 1) noexcept {
    header->counters[static_cast<std::uint32_t>(counter)].fetch_add(add, std::memory_order_relaxed);
  }
};

}  // namespace tensortap::probe
