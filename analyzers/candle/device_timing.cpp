#include "analyzers/candle/device_timing.h"

#include <algorithm>
#include <tuple>

namespace tensortap::analyzers::candle {
namespace {

constexpr std::size_t kSorterBytes = std::size_t{8} << 20;
constexpr std::size_t kRowBytes = std::size_t{2} << 20;

// The length of a union of intervals that come by their begin.
class Union {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin > end_) {
      length_ += end_ - begin_;
      begin_ = begin;
      end_ = end;
    } else {
      end_ = std::max(end_, end);
    }
  }
  std::uint64_t length() const { return length_ + (end_ - begin_); }

 private:
  std::uint64_t begin_ = 0, end_ = 0, length_ = 0;
};

// A set of names that is looked at once per group: few names, and mostly the one of the call before.
class NameSet {
 public:
  void add(NameId name) {
    if (!names_.empty() && names_.back() == name) return;
    names_.push_back(name);
    if (names_.size() >= compact_at_) compact();
  }
  // As a list of numbers by the bytes of the names; empties the set.
  ShapeId store(TraceTables& tables) {
    compact();
    std::sort(names_.begin(), names_.end(), [&](std::uint64_t a, std::uint64_t b) {
      return tables.names.compare(static_cast<NameId>(a), static_cast<NameId>(b)) < 0;
    });
    const ShapeId id = tables.shapes.add(names_);
    names_.clear();
    return id;
  }

 private:
  void compact() {
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
    compact_at_ = std::max<std::size_t>(64, 2 * names_.size());
  }
  std::vector<std::uint64_t> names_;
  std::size_t compact_at_ = 64;
};

}  // namespace

bool DeviceTiming::BySpan::operator()(const Interval& a, const Interval& b) const {
  return std::tie(a.span, a.device, a.clock, a.begin_ns) < std::tie(b.span, b.device, b.clock, b.begin_ns);
}

bool DeviceTiming::ByClock::operator()(const ClockInterval& a, const ClockInterval& b) const {
  return std::tie(a.device, a.clock, a.begin_ns) < std::tie(b.device, b.clock, b.begin_ns);
}

DeviceTiming::DeviceTiming(TraceTables& tables)
    : tables_(tables),
      by_span_(std::make_unique<format::Sorter<Interval, BySpan>>(BySpan{}, kSorterBytes)),
      by_clock_(std::make_unique<format::Sorter<ClockInterval, ByClock>>(ByClock{}, kSorterBytes)),
      rows_(kRowBytes),
      first_row_(kRowBytes / 2) {}

DeviceTiming::~DeviceTiming() = default;

void DeviceTiming::on_device_interval(const format::DeviceInterval& event, const format::Place&) {
  Interval interval;
  interval.begin_ns = event.start_ns;
  interval.end_ns = event.start_ns + std::min(event.duration_ns, ~event.start_ns);
  interval.span = tables_.spans.add(event.span_id);
  interval.device = tables_.names.add(event.device);
  interval.clock = tables_.names.add(event.clock_id);
  interval.stream = tables_.names.add(event.stream_id);
  interval.backend = tables_.names.add(event.backend);
  by_span_->add(interval);
  by_clock_->add({interval.begin_ns, interval.end_ns, interval.device, interval.clock});
  ++interval_count_;
}

void DeviceTiming::finish() {
  make_span_rows();
  by_span_.reset();
  make_clock_rows();
  by_clock_.reset();
}

void DeviceTiming::make_span_rows() {
  format::PagedArray<SpanRow> rows(kRowBytes);
  SpanRow row;
  Union busy;
  NameSet streams, backends;
  const auto close = [&] {
    row.busy_ns = busy.length();
    row.streams = streams.store(tables_);
    row.backends = backends.store(tables_);
    rows.push_back(row);
  };
  by_span_->for_each([&](const Interval& i) {
    if (row.interval_count != 0 && (row.span != i.span || row.device != i.device || row.clock != i.clock)) {
      close();
      row = {};
      busy = {};
    }
    row.span = i.span;
    row.device = i.device;
    row.clock = i.clock;
    ++row.interval_count;
    busy.add(i.begin_ns, i.end_ns);
    streams.add(i.stream);
    backends.add(i.backend);
  });
  if (row.interval_count != 0) close();
  sort_span_rows(rows);
}

// From the order of numbers to that of texts.
void DeviceTiming::sort_span_rows(const format::PagedArray<SpanRow>& rows) {
  struct Key {
    TextKey text;
    SpanRow row;
  };
  const auto less = [this](const Key& a, const Key& b) {
    if (a.text != b.text) return a.text < b.text;
    if (a.row.span != b.row.span) return tables_.spans.compare(a.row.span, b.row.span) < 0;
    if (const auto order = tables_.names.compare(a.row.device, b.row.device); order != 0) return order < 0;
    return tables_.names.compare(a.row.clock, b.row.clock) < 0;
  };
  format::Sorter<Key, decltype(less)> sorter(less, kSorterBytes);
  rows.for_each([&](const SpanRow& row) { sorter.add({TextKey(tables_.spans.text(row.span)), row}); });
  sorter.for_each([&](const Key& key) {
    first_row_.grow(key.row.span + std::size_t{1}, kNoId);
    if (first_row_[key.row.span] == kNoId)
      first_row_.edit(key.row.span) = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back(key.row);
  });
}

void DeviceTiming::make_clock_rows() {
  ClockRow row;
  Union busy;
  const auto close = [&] {
    row.busy_ns = busy.length();
    clocks_.push_back(row);
  };
  by_clock_->for_each([&](const ClockInterval& i) {
    if (row.interval_count != 0 && (row.device != i.device || row.clock != i.clock)) {
      close();
      row = {};
      busy = {};
    }
    row.device = i.device;
    row.clock = i.clock;
    ++row.interval_count;
    busy.add(i.begin_ns, i.end_ns);
  });
  if (row.interval_count != 0) close();
  std::sort(clocks_.begin(), clocks_.end(), [&](const ClockRow& a, const ClockRow& b) {
    if (const auto order = tables_.names.compare(a.device, b.device); order != 0) return order < 0;
    return tables_.names.compare(a.clock, b.clock) < 0;
  });
}

}  // namespace tensortap::analyzers::candle
