#include "analyzers/calls/interval_union.h"

#include <algorithm>

namespace tensortap::analyzers {

std::uint64_t IntervalUnion::add(std::uint64_t begin, std::uint64_t end) {
  if (begin < folded_until_) {
    if (begin < end) ++late_;
    begin = folded_until_;
  }
  if (begin >= end) return 0;
  if (intervals_.empty() || begin > intervals_.back().second) {  // the usual case: calls one after another
    intervals_.emplace_back(begin, end);
    if (intervals_.size() > kMostIntervals) fold();
    return end - begin;
  }
  // [first, last) are the kept intervals that overlap or touch the new one; they become one.
  const auto first =
      std::lower_bound(intervals_.begin(), intervals_.end(), begin,
                       [](const auto& kept, std::uint64_t time) { return kept.second < time; });
  auto last = first;
  std::uint64_t known = 0;
  std::uint64_t new_begin = begin;
  std::uint64_t new_end = end;
  for (; last != intervals_.end() && last->first <= end; ++last) {
    known += last->second - last->first;
    new_begin = std::min(new_begin, last->first);
    new_end = std::max(new_end, last->second);
  }
  if (first == last) {
    intervals_.insert(first, {begin, end});
  } else {
    *first = {new_begin, new_end};
    intervals_.erase(first + 1, last);
  }
  if (intervals_.size() > kMostIntervals) fold();
  return new_end - new_begin - known;
}

void IntervalUnion::fold() {
  const auto half = intervals_.begin() + static_cast<std::ptrdiff_t>(intervals_.size() / 2);
  for (auto it = intervals_.begin(); it != half; ++it) folded_length_ += it->second - it->first;
  folded_until_ = (half - 1)->second;
  intervals_.erase(intervals_.begin(), half);
}

std::uint64_t IntervalUnion::length_within(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t length = folded_length_;
  for (const auto& [from, to] : intervals_) {
    const std::uint64_t low = std::max(from, begin);
    const std::uint64_t high = std::min(to, end);
    if (low < high) length += high - low;
  }
  return length;
}

}  // namespace tensortap::analyzers
