// Live storages over time: allocated bytes, peaks, and what was live at the greatest one (trace/10
// specification §4.1).
//
// Records are applied in time order; all of one timestamp together, then one point is taken, so what comes
// and goes within a timestamp never shows. A storage is known by device and storage id; a second allocation
// of a live storage is an alias and changes nothing; any free of it ends it.
//
// What was live at the peak is what is live now and was then, and what was freed since: the list of the
// latter is never longer than the live set was. Memory: live storages, now and at the peak. Thread rules:
// plain values (copied for reports).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzers/calls/name_table.h"
#include "analyzers/calls/wide.h"
#include "format/event.h"

namespace tensortap::analyzers {

struct Allocation {
  std::uint64_t bytes = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t serial = 0;  // order of allocation
  NameId device = kNoName;
  NameId op = kNoName;  // that it is charged to; kNoName = none known
  NameId module = kNoName;
  std::optional<std::uint64_t> step;
  format::MemoryCategory category = format::MemoryCategory::kOther;
};

struct MemoryEvent {
  std::uint64_t timestamp_ns = 0;
  std::uint64_t index = 0;  // in the stream
  bool is_free = false;
  std::string storage_id;
  Allocation allocation;  // of a free: device and bytes only
};

class LiveSet {
 public:
  struct Point {
    std::uint64_t timestamp_ns = 0, live_bytes = 0;
  };
  struct Device {
    Wide live_bytes = 0;
    std::uint64_t allocations = 0, frees = 0, allocated_bytes = 0;
    std::optional<Point> peak;
    bool touched = false;  // since the last point
  };
  struct Totals {
    Wide live_bytes = 0;
    std::uint64_t allocations = 0, frees = 0, allocated_bytes = 0;
    std::uint64_t unpaired_frees = 0, size_mismatches = 0;
  };

  // In ascending (timestamp, index) order.
  void apply(const MemoryEvent& event);
  // Takes the point of the last timestamp. Once, after the last event.
  void finish();

  const Totals& totals() const { return totals_; }
  const std::map<NameId, Device>& devices() const { return devices_; }
  std::size_t live_count() const { return live_.size(); }
  const std::optional<Point>& peak() const { return peak_; }
  std::vector<Allocation> live_at_peak() const;  // largest first; equal ones oldest first

 private:
  void touch(NameId name, Device& device);
  void take_point();

  std::unordered_map<std::string, Allocation> live_;
  std::map<NameId, Device> devices_;
  std::vector<NameId> touched_;  // devices
  Totals totals_;
  std::optional<Point> peak_;
  std::uint64_t serial_at_peak_ = 0;          // allocations from this serial on came after the peak
  std::vector<Allocation> freed_since_peak_;  // of those that were live then
  std::uint64_t group_ns_ = 0;
  std::uint64_t next_serial_ = 0;
  bool group_open_ = false;
};

}  // namespace tensortap::analyzers
