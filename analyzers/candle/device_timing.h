// Device timing (trace/10 specification §4.4): for how long each span, and each clock of a device, was busy:
// the length of the union of their intervals over all streams.
//
//   DeviceTiming timing(tables);
//   timing.on_device_interval(event, place);
//   timing.finish();                                       // once, after the last
//   timing.for_each_span_row([&](const DeviceTiming::SpanRow& row) { … });   // by span, device, clock
//   timing.for_each_row_of(span, [&](const DeviceTiming::SpanRow& row) { … });
//
// Touching and overlapping intervals merge. A child's intervals are not rolled up into its parent, and the
// rows of one clock may overlap: they may not be added up to the clock's.
//
// Memory: two sorters (8 MiB each while reading, twice that in finish()), afterwards a few MiB for rows.
// Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {

class DeviceTiming final : public format::EventVisitor {
 public:
  struct SpanRow {
    std::uint64_t interval_count = 0, busy_ns = 0;
    std::uint32_t span = kNoId;
    NameId device = kNoId, clock = kNoId;
    ShapeId streams = NumberLists::kEmpty;  // sets of names in tables().shapes, by the bytes of the names
    ShapeId backends = NumberLists::kEmpty;
  };
  struct ClockRow {
    std::uint64_t interval_count = 0, busy_ns = 0;
    NameId device = kNoId, clock = kNoId;
  };

  explicit DeviceTiming(TraceTables& tables);
  ~DeviceTiming() override;

  void on_device_interval(const format::DeviceInterval& event, const format::Place& place) override;
  void finish();

  std::uint64_t interval_count() const { return interval_count_; }
  // `device_coverage`: what the contract declares, but at least partial when there is an interval.
  format::Coverage coverage(format::Coverage declared) const {
    return declared == format::Coverage::kNone && interval_count_ != 0 ? format::Coverage::kPartial
                                                                       : declared;
  }

  // All that follows: after finish(). Rows are by the bytes of span id, device, clock.
  template <class Take>
  void for_each_span_row(Take take) const {
    for (std::uint64_t i = 0; i < rows_.size(); ++i) take(SpanRow(rows_[i]));
  }
  // The rows of one span (a number of tables().spans).
  template <class Take>
  void for_each_row_of(std::uint32_t span, Take take) const {
    if (span >= first_row_.size() || first_row_[span] == kNoId) return;
    for (std::uint64_t i = first_row_[span]; i < rows_.size() && rows_[i].span == span; ++i)
      take(SpanRow(rows_[i]));
  }
  const std::vector<ClockRow>& clocks() const { return clocks_; }  // by the bytes of device, clock

  const TraceTables& tables() const { return tables_; }

 private:
  struct Interval {
    std::uint64_t begin_ns = 0, end_ns = 0;
    std::uint32_t span = kNoId;
    NameId device = kNoId, clock = kNoId, stream = kNoId, backend = kNoId;
  };
  struct ClockInterval {
    std::uint64_t begin_ns = 0, end_ns = 0;
    NameId device = kNoId, clock = kNoId;
  };
  struct BySpan {
    bool operator()(const Interval& a, const Interval& b) const;
  };
  struct ByClock {
    bool operator()(const ClockInterval& a, const ClockInterval& b) const;
  };

  void make_span_rows();
  void sort_span_rows(const format::PagedArray<SpanRow>& rows);
  void make_clock_rows();

  TraceTables& tables_;
  std::unique_ptr<format::Sorter<Interval, BySpan>> by_span_;         // until finish()
  std::unique_ptr<format::Sorter<ClockInterval, ByClock>> by_clock_;  // until finish()
  std::uint64_t interval_count_ = 0;
  format::PagedArray<SpanRow> rows_;             // in document order
  format::PagedArray<std::uint32_t> first_row_;  // by span: its first row; kNoId: none
  std::vector<ClockRow> clocks_;
};

}  // namespace tensortap::analyzers::candle
