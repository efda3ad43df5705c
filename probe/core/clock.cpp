#include "probe/core/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tensortap::probe {
namespace {

constexpr std::uint64_t kCalibrationNs = 20000000;
constexpr std::uint64_t kAnchorNs = 1000000;
constexpr std::uint64_t kJumpNs = 5000;  // more than slewing and a preempted reading can explain

// Does the counter run at one pace in every state of the processor, on all cores alike?
bool counter_is_invariant() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

struct Reading {
  std::uint64_t ns, ticks;
  std::uint64_t took_ticks;
};

Reading read_both() noexcept {
  const std::uint64_t before = counter_ticks();
  const std::uint64_t ns = monotonic_ns();
  const std::uint64_t after = counter_ticks();
  return {ns, before + (after - before) / 2, after - before};
}

}  // namespace

void ClockBase::begin(std::uint64_t session_zero_ns) noexcept {
  zero_ns = session_zero_ns;
  Reading best = read_both();
  for (int i = 0; i < 16; ++i) {
    const Reading reading = read_both();
    if (reading.took_ticks < best.took_ticks) best = reading;
  }
  first_ns = best.ns;
  first_ticks = best.ticks;
  reading_ticks = best.took_ticks;
  counter_usable.store(counter_is_invariant(), std::memory_order_relaxed);
}

std::uint64_t ThreadClock::read_again() noexcept {
  if (!base_->counter_usable.load(std::memory_order_relaxed)) {
    const std::uint64_t now_ns = monotonic_ns() - base_->zero_ns;
    ticks_per_anchor_ = 0;
    if (now_ns > last_ns_) last_ns_ = now_ns;
    return last_ns_;
  }
  const std::uint64_t longest = base_->reading_ticks * 3;  // else something came between
  Reading reading = read_both();
  for (int i = 0; i < 3 && reading.took_ticks > longest; ++i) reading = read_both();
  const bool tight = reading.took_ticks <= longest;
  const std::uint64_t now_ns = reading.ns - base_->zero_ns;
  if (ticks_per_anchor_ != 0 && tight) {
    // Did the old anchor foretell this reading? After a long pause the kernel's slewing adds to the
    // tolerance.
    const std::uint64_t gone_ns = now_ns - anchor_ns_;
    const auto foretold = static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(reading.ticks - anchor_ticks_) * ns_per_tick_ >> 32);
    const std::uint64_t error = foretold > gone_ns ? foretold - gone_ns : gone_ns - foretold;
    if (error > kJumpNs + gone_ns / 1000) base_->counter_usable.store(false, std::memory_order_relaxed);
  }
  const std::uint64_t known_ns = reading.ns - base_->first_ns;
  const std::uint64_t known_ticks = reading.ticks - base_->first_ticks;
  ticks_per_anchor_ = 0;
  if (tight && known_ns >= kCalibrationNs && known_ticks != 0) {
    anchor_ticks_ = reading.ticks;
    anchor_ns_ = now_ns;
    ns_per_tick_ = static_cast<std::uint64_t>((static_cast<unsigned __int128>(known_ns) << 32) / known_ticks);
    if (ns_per_tick_ != 0) ticks_per_anchor_ = (kAnchorNs << 32) / ns_per_tick_;
  }
  if (now_ns > last_ns_) last_ns_ = now_ns;
  return last_ns_;
}

}  // namespace tensortap::probe
