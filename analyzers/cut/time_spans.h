// Ranges of host time, both ends included, as a sorted list that does not overlap; and how people write them.
//
//   TimeSpans spans({{100, 200}, {150, 300}});
//   spans.contains(250);                          // true
//   parse_time("1.5s");                           // 1'500'000'000
//   parse_steps("3:5");                           // {3, 5}
//
// Thread rules: plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace tensortap::analyzers {

struct NumberRange {
  std::uint64_t first = 0;
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

class TimeSpans {
 public:
  explicit TimeSpans(std::vector<NumberRange> spans);
  bool contains(std::uint64_t time_ns) const { return touches({time_ns, time_ns}); }
  bool touches(const NumberRange& range) const;  // has a time in common with it; an empty range has none
  TimeSpans within(const NumberRange& range) const;
  const std::vector<NumberRange>& list() const { return spans_; }

 private:
  std::vector<NumberRange> spans_;
};

// "1.5s", "200ms", "3us", "250ns" or plain nanoseconds; nothing when it is none of these, or not a whole
// number of nanoseconds below 2^64.
std::optional<std::uint64_t> parse_time(std::string_view text);

// "3:5" (both included), "3", "3:" (to the end), ":5" (from the first).
std::optional<NumberRange> parse_steps(std::string_view text);

}  // namespace tensortap::analyzers
