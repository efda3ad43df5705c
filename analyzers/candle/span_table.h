// The spans of a stream, by the number of their id: times, place in the tree, and how much of each its
// children cover. Needed by the graph's figures and by the activation profile.
//
//   SpanTable spans(tables);
//   spans.on_span_start(start);  spans.on_span_end(end);  spans.on_op(span_number, op);
//   const SpanRow& row = spans[number];        // good until the next call
//
// References may point forwards: a row exists for each number of `tables.spans`, `declared` says whether its
// span_start came. Memory: bounded (PagedArray). Thread rules: one thread at a time, reading too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analyzers/candle/child_cover.h"
#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  return b > ~std::uint64_t{0} - a ? ~std::uint64_t{0} : a + b;
}

struct SpanRow {
  std::uint64_t start_ns = 0, duration_ns = 0;
  ChildCover cover;
  std::uint32_t parent = kNoId;
  std::uint32_t name = kNoId;  // of TraceTables::labels
  std::uint32_t op_count = 0;
  format::SpanKind kind = format::SpanKind::kFunction;
  bool declared = false, closed = false, measured = false;

  std::uint64_t end_ns() const { return saturating_sum(start_ns, duration_ns); }
};

class SpanTable {
 public:
  explicit SpanTable(TraceTables& tables) : tables_(tables) {}

  void on_span_start(const format::SpanStart& start);
  void on_span_end(const format::SpanEnd& end);
  // An op record charged to `span`; returns its index among the span's ops.
  std::uint32_t on_op(std::uint32_t span, const format::Op& op);

  std::uint32_t size() const { return static_cast<std::uint32_t>(rows_.size()); }
  const SpanRow& operator[](std::uint32_t number) const { return rows_[number]; }
  bool is_declared(std::uint32_t number) const { return number < rows_.size() && rows_[number].declared; }
  std::uint64_t declared() const { return declared_; }

  std::uint64_t closed_measured() const { return closed_measured_; }

  // The measured span that comes first by the bytes of its id, among those closed; kNoId: none is.
  std::uint32_t first_measured() const { return first_measured_; }
  // Spans whose id reads like that of an op or tensor node of the graph.
  const format::PagedArray<std::uint32_t>& node_like() const { return node_like_; }

  // A row for each number of the table's ids, also those never declared.
  void finish() { rows_.grow(tables_.spans.size()); }

 private:
  SpanRow& row(std::uint32_t number) {
    rows_.grow(number + std::size_t{1});
    return rows_.edit(number);
  }

  TraceTables& tables_;
  format::PagedArray<SpanRow> rows_{std::size_t{16} << 20};
  format::PagedArray<std::uint32_t> node_like_{std::size_t{1} << 16};
  std::uint64_t declared_ = 0, closed_measured_ = 0;
  std::uint32_t first_measured_ = kNoId;
};

}  // namespace tensortap::analyzers::candle
