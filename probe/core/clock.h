// The clock of the probe: CLOCK_MONOTONIC in nanoseconds (vdso: no system call), and for job threads the
// same time read from the processor's time-stamp counter, at a third of the price.
//
//   ThreadClock clock;                      // one per thread
//   clock.reset(base);                      // of the capture: ClockBase, made when it began
//   const std::uint64_t now = clock.now();  // nanoseconds since the session's time 0, never falling
//
// A thread's clock reads CLOCK_MONOTONIC at its first use and again after each millisecond of use; in between
// it adds ticks, at the rate seen since the capture began. That rate is known after 20 ms; before, on a
// processor whose counter may stop or change its pace, and after a jump was seen (a moved virtual machine),
// every reading is CLOCK_MONOTONIC's. Error: what the two clocks drift apart in a millisecond beyond their
// mean rate, below 1 µs (the kernel slews by 500 ppm at most).
//
// Thread rules: ClockBase is shared, its one writable member atomic; a ThreadClock belongs to one thread.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tensortap::probe {

inline std::uint64_t monotonic_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t counter_ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

// When a capture began, by both clocks.
struct ClockBase {
  std::uint64_t zero_ns = 0;  // CLOCK_MONOTONIC at the session's time 0
  std::uint64_t first_ns = 0, first_ticks = 0;
  std::uint64_t reading_ticks = 0;  // what reading both clocks takes when nothing comes between
  std::atomic<bool> counter_usable{false};

  void begin(std::uint64_t session_zero_ns) noexcept;
};

class ThreadClock {
 public:
  void reset(ClockBase& base) noexcept {
    base_ = &base;
    ticks_per_anchor_ = 0;
    last_ns_ = 0;
  }
  std::uint64_t now() noexcept {
    const std::uint64_t ticks = counter_ticks() - anchor_ticks_;
    if (__builtin_expect(ticks >= ticks_per_anchor_, 0)) return read_again();
    const std::uint64_t now_ns = anchor_ns_ + ((ticks * ns_per_tick_) >> 32);
    if (now_ns > last_ns_) last_ns_ = now_ns;
    return last_ns_;
  }
  std::uint64_t last() const noexcept { return last_ns_; }
  // A time that is not this clock's: from now on the clock is not behind it. Returns the later one.
  std::uint64_t not_before(std::uint64_t time_ns) noexcept {
    if (time_ns > last_ns_) last_ns_ = time_ns;
    return last_ns_;
  }

 private:
  std::uint64_t read_again() noexcept;

  ClockBase* base_ = nullptr;
  std::uint64_t anchor_ticks_ = 0;
  std::uint64_t anchor_ns_ = 0;         // session time
  std::uint64_t ns_per_tick_ = 0;       // times 2^32
  std::uint64_t ticks_per_anchor_ = 0;  // how long the anchor is good for; 0: not at all
  std::uint64_t last_ns_ = 0;
};

}  // namespace tensortap::probe
