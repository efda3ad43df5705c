// Sorts any number of records in bounded memory: runs that were sorted in memory lie in a temporary file and
// are merged when they are asked for.
//
//   Sorter<Interval, ByStart> sorter(ByStart{});
//   sorter.add(interval);                        // equal records keep the order in which they were added
//   sorter.for_each([&](const Interval& i) { … });   // as often as wanted; then more may be added
//
// Memory: the budget. When there is no disk space everything stays in memory. T is trivially copyable.
// Thread rules: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

#include "format/paging/spill_file.h"

namespace tensortap::format {

template <class T, class Less = std::less<T>>
class Sorter {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Sorter(Less less = Less{}, std::size_t resident_bytes = std::size_t{16} << 20)
      : less_(std::move(less)), run_length_(std::max<std::size_t>(16, resident_bytes / sizeof(T))) {}

  std::uint64_t size() const { return spilled_ + recent_.size(); }

  void add(const T& record) {
    if (recent_.size() >= run_length_) spill();
    recent_.push_back(record);
    sorted_ = false;
  }

  template <class Take>
  void for_each(Take take) {
    sort_recent();
    if (runs_.empty()) {
      for (const T& record : recent_) take(record);
      return;
    }
    merge(take);
  }

 private:
  struct Run {
    std::uint64_t begin = 0, count = 0;  // records, from the file's start
  };
  // What is left of one run while runs are merged.
  struct Head {
    std::vector<T> block;
    std::size_t at = 0;
    std::uint64_t next = 0, end = 0;  // of the file
  };

  void sort_recent() {
    if (!std::exchange(sorted_, true)) std::stable_sort(recent_.begin(), recent_.end(), std::ref(less_));
  }

  void spill() {
    sort_recent();
    if (!file_.write(spilled_ * sizeof(T), recent_.data(), recent_.size() * sizeof(T))) {
      run_length_ = static_cast<std::size_t>(-1);
      return;
    }
    runs_.push_back({spilled_, recent_.size()});
    spilled_ += recent_.size();
    recent_.clear();
  }

  bool refill(Head& head, std::size_t block) const {
    const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(block, head.end - head.next));
    head.block.resize(count);
    head.at = 0;
    if (count == 0) return false;
    file_.read(head.next * sizeof(T), head.block.data(), count * sizeof(T));
    head.next += count;
    return true;
  }

  template <class Take>
  void merge(Take& take) {
    // All heads together take about as much as one run; the recent records are the last run.
    const std::size_t block = std::clamp<std::size_t>(run_length_ / runs_.size(), 64, std::size_t{1} << 16);
    std::vector<Head> heads(runs_.size() + 1);
    const auto front = [&](std::size_t i) -> const T& {
      return i == runs_.size() ? recent_[heads[i].at] : heads[i].block[heads[i].at];
    };
    const auto later = [&](std::size_t a, std::size_t b) {
      if (less_(front(b), front(a))) return true;
      return !less_(front(a), front(b)) && b < a;  // equal: the run that was made first
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> queue(later);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      heads[i].next = runs_[i].begin;
      heads[i].end = runs_[i].begin + runs_[i].count;
      if (refill(heads[i], block)) queue.push(i);
    }
    if (!recent_.empty()) queue.push(runs_.size());
    while (!queue.empty()) {
      const std::size_t i = queue.top();
      queue.pop();
      take(front(i));
      ++heads[i].at;
      const bool more = i == runs_.size() ? heads[i].at < recent_.size()
                                          : heads[i].at < heads[i].block.size() || refill(heads[i], block);
      if (more) queue.push(i);
    }
  }

  Less less_;
  std::size_t run_length_;
  std::vector<T> recent_;
  bool sorted_ = true;
  std::vector<Run> runs_;
  std::uint64_t spilled_ = 0;
  SpillFile file_;
};

}  // namespace tensortap::format
