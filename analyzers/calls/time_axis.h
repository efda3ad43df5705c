// How far the run's time has come, not stretched by wrong timestamps.
//
// Starts and ends of spans move it on. An operator that starts more than an hour ahead of it is a suspect,
// until a span's time comes near; suspects that none bears out, and anything more than a year after the
// session's start, count as far future. An operator at time 0 in a span that began later has no usable
// timestamp: it is counted too.
//
// Thread rules: plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tensortap::analyzers {

class TimeAxis {
 public:
  void span_time(std::uint64_t time_ns) {
    if (time_ns > kYear) {
      ++far_future_;
      return;
    }
    latest_ns_ = std::max(latest_ns_, time_ns);
    if (suspects_.empty()) return;
    for (const std::uint64_t suspect : suspects_) {
      if (suspect <= time_ns + kHour) latest_ns_ = std::max(latest_ns_, suspect);
    }
    std::erase_if(suspects_, [&](std::uint64_t suspect) { return suspect <= time_ns + kHour; });
  }

  // `span_end_ns`: of the span it is charged to, when that has ended; 0 otherwise.
  void operator_time(std::uint64_t start_ns, std::uint64_t end_ns, std::uint64_t span_start_ns,
                     std::uint64_t span_end_ns) {
    if (start_ns == 0 && span_start_ns > 0) {
      ++zero_;
    } else if (start_ns > std::max(latest_ns_, span_end_ns) + kHour || end_ns > kYear) {
      if (end_ns > kYear || span_end_ns != 0 || suspects_.size() >= kMostSuspects) {
        ++far_future_;
      } else {
        suspects_.push_back(start_ns);
      }
    } else {
      latest_ns_ = std::max(latest_ns_, end_ns);
    }
  }

  std::uint64_t latest_ns() const { return latest_ns_; }
  std::uint64_t zero() const { return zero_; }
  std::uint64_t far_future() const { return far_future_ + suspects_.size(); }

 private:
  static constexpr std::uint64_t kHour = 3600ULL * 1000000000ULL;
  static constexpr std::uint64_t kYear = 365 * 24 * kHour;
  static constexpr std::size_t kMostSuspects = 1024;

  std::uint64_t latest_ns_ = 0;
  std::uint64_t zero_ = 0;
  std::uint64_t far_future_ = 0;
  std::vector<std::uint64_t> suspects_;
};

}  // namespace tensortap::analyzers
