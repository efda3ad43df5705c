// The length of a union of half-open time intervals, in bounded memory.
//
// Intervals may come in any order. At most kMostIntervals disjoint ones are kept; then the older half is
// folded into a sum, and what comes later for that past is counted in `late()` instead of in the length.
//
//   IntervalUnion covered;
//   covered.add(10, 20);           // 10
//   covered.add(15, 30);           // 10 more
//   covered.length_within(0, 25);  // 15
//
// Thread rules: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tensortap::analyzers {

class IntervalUnion {
 public:
  static constexpr std::size_t kMostIntervals = 16384;

  // Adds [begin, end) and returns by how much the union grew. An empty interval adds nothing.
  std::uint64_t add(std::uint64_t begin, std::uint64_t end);

  // The length of the part inside [begin, end); folded intervals count as inside.
  std::uint64_t length_within(std::uint64_t begin, std::uint64_t end) const;

  // Intervals that reached into the folded past: the length may be too small by them.
  std::uint64_t late() const { return late_; }

 private:
  void fold();

  std::vector<std::pair<std::uint64_t, std::uint64_t>> intervals_;  // disjoint, not touching, ascending
  std::uint64_t folded_length_ = 0;
  std::uint64_t folded_until_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace tensortap::analyzers
