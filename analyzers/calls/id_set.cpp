#include "analyzers/calls/id_set.h"

#include "format/paging/numbered_id.h"

namespace tensortap::analyzers {

bool IdSet::insert(std::string_view id) {
  const auto [prefix, number] = format::split_id(id);
  auto found = by_prefix_.find(prefix);
  if (found == by_prefix_.end()) found = by_prefix_.emplace(std::string(prefix), Intervals()).first;
  Intervals& intervals = found->second;

  auto next = intervals.upper_bound(number);
  if (next != intervals.begin()) {
    const auto before = std::prev(next);
    if (number <= before->second) return false;
    if (number == before->second + 1) {
      before->second = number;
      if (next != intervals.end() && next->first == number + 1) {
        before->second = next->second;
        intervals.erase(next);
      }
      ++size_;
      return true;
    }
  }
  if (next != intervals.end() && next->first == number + 1) {
    const std::uint64_t last = next->second;
    intervals.erase(next);
    intervals.emplace(number, last);
  } else {
    intervals.emplace(number, number);
  }
  ++size_;
  return true;
}

bool IdSet::contains(std::string_view id) const {
  const auto [prefix, number] = format::split_id(id);
  const auto found = by_prefix_.find(prefix);
  if (found == by_prefix_.end()) return false;
  const auto next = found->second.upper_bound(number);
  return next != found->second.begin() && number <= std::prev(next)->second;
}

}  // namespace tensortap::analyzers
