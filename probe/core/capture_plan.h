// When a capture begins and how long it goes on: the words that trace-ctl, trace-run and TENSORTAP_CAPTURE
// share.
//
//   now                     at once, until the job ends or is told to stop (what a probe does that was told
//   nothing) steps=10:15             the iterations 10 to 15, both included; also 10 and 10: next=3 the next
//   three iterations duration=5s             so long (ns, us, ms, s, m, h), from the next border of an
//   iteration on idle                    nothing until trace-ctl says so always-on, always-on=R  counts and
//   durations of operators, of every call (R = 1) or of a share R of them
//
// Iterations are numbered from 0, from the moment at which the probe began to look for them. C++17; pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace tensortap::probe {

struct CapturePlan {
  enum class Begin : std::uint8_t {
    kNow,
    kBorder,  // of any iteration; at once when the job shows none for a while
    kStep,    // when `first_step` begins
  };
  Begin begin = Begin::kNow;
  std::uint64_t first_step = 0;
  std::uint64_t steps = 0;        // 0: no limit
  std::uint64_t duration_ns = 0;  // 0: no limit
};

struct CaptureOrder {
  enum class Mode : std::uint8_t { kIdle, kCapture, kAlwaysOn };
  Mode mode = Mode::kCapture;
  CapturePlan plan;
  double sampled_share = 0;  // kAlwaysOn: 0 = the default
};

// False: not one of the words above.
bool parse_capture_order(std::string_view text, CaptureOrder& order) noexcept;

}  // namespace tensortap::probe
