// The first few of many by an order, equal ones in the order in which they came.
//
//   TopList<Row, Before> top(8, before);      // before(a, b): a stands in front of b
//   top.offer(row);
//   for (const Row& row : top.rows()) …
//
// Thread rules: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tensortap::analyzers::candle {

template <class Row, class Before>
class TopList {
 public:
  TopList(std::size_t most, Before before) : most_(most), before_(std::move(before)) {}

  void offer(const Row& row) {
    ++offered_;
    if (rows_.size() == most_ && !before_(row, rows_.back())) return;
    rows_.insert(std::upper_bound(rows_.begin(), rows_.end(), row, before_), row);
    if (rows_.size() > most_) rows_.pop_back();
  }
  const std::vector<Row>& rows() const { return rows_; }
  std::size_t offered() const { return offered_; }

 private:
  std::size_t most_;
  Before before_;
  std::vector<Row> rows_;
  std::size_t offered_ = 0;
};

}  // namespace tensortap::analyzers::candle
