// Logical memory (trace/10 specification §4.1): lifetimes of storages, the live bytes after every timestamp,
// and their peaks, exactly, in bounded memory.
//
//   TraceTables tables;
//   LogicalMemory logical(tables);
//   logical.on_memory(event, place);               // every memory record, in stream order
//   logical.finish();                              // once, after the last
//   logical.for_each_lifetime([&](std::uint64_t index, const Lifetime& life) { … });   // document order
//
// How: records go into a sorter by time (the stream's order breaks ties), all else happens in finish(). What
// is live is found by a table indexed by the storage's number; lifetimes, tensor ids and the timeline lie in
// paged tables. A sum beyond 2^64-1 is told as 2^64-1.
//
// Memory: about 8 MiB while reading, 30 MiB while finishing, 10 MiB afterwards, whatever the number of
// records; besides, some 100 bytes per device. Thread rules: one thread at a time, reading too.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "analyzers/calls/wide.h"
#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {

// One storage from its allocation to its free. Numbers are of the shared TraceTables.
struct Lifetime {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;  // when not open
  std::uint64_t bytes = 0;
  NameId device = kNoId;
  std::uint32_t storage = kNoId;
  std::uint32_t span = kNoId;  // that the allocation is charged to
  NameId op_name = kNoId;      // kNoId: none
  NameId dtype = kNoId;
  ShapeId shape = NumberLists::kEmpty;
  std::uint32_t tensor = kNoId;   // of the allocation; all of them: for_each_tensor
  std::uint32_t alias_begin = 0;  // in LogicalMemory's table of further tensor ids
  std::uint32_t alias_count = 0;
  format::MemoryCategory category = format::MemoryCategory::kOther;
  bool open = true;

  // After all records of that time were applied.
  bool live_after(std::uint64_t ns) const { return start_ns <= ns && (open || end_ns > ns); }
};

class LogicalMemory final : public format::EventVisitor {
 public:
  static constexpr std::size_t kCategories = 5;

  struct Peak {
    std::uint64_t timestamp_ns = 0, live_bytes = 0;
  };
  struct Totals {
    std::uint64_t allocations = 0, frees = 0, allocated_bytes = 0;  // frees: those that ended a lifetime
    std::optional<Peak> peak;                                       // none without an allocation
  };
  struct Device : Totals {
    NameId name = kNoId;
  };
  // What is live after a timestamp: only devices and categories with a live storage.
  struct Live {
    std::uint64_t timestamp_ns = 0, live_bytes = 0;
    std::map<std::uint32_t, std::uint64_t> by_device;  // index in devices() → bytes
    std::array<std::optional<std::uint64_t>, kCategories> by_category;
  };

  explicit LogicalMemory(TraceTables& tables);
  ~LogicalMemory() override;

  void on_memory(const format::Memory& event, const format::Place& place) override;
  void finish();

  // There was a memory record. All that follows: after finish().
  bool observed() const { return observed_; }
  const Totals& totals() const { return totals_; }
  const std::vector<Device>& devices() const { return devices_; }  // by the bytes of their names

  // Document order: by start, device, storage id. f(index, lifetime).
  std::uint64_t lifetime_count() const { return lifetimes_.size(); }
  Lifetime lifetime(std::uint64_t index) const { return lifetimes_[order_[index]]; }
  template <class Take>
  void for_each_lifetime(Take take) const {
    for (std::uint64_t i = 0; i < lifetime_count(); ++i) take(i, lifetime(i));
  }

  // The distinct tensor ids of a lifetime, by their bytes; those seen until `until_ns` only. f(number).
  void for_each_tensor(const Lifetime& life, const std::function<void(std::uint32_t)>& take,
                       std::uint64_t until_ns = ~std::uint64_t{0}) const;

  // One point per distinct timestamp, ascending, until f(const Live&) returns false.
  void for_each_point(const std::function<bool(const Live&)>& take) const;
  // The point of the peak; nothing without an allocation.
  std::optional<Live> at_peak() const;

  const TraceTables& tables() const { return tables_; }

 private:
  struct Record {
    std::uint64_t timestamp_ns = 0, bytes = 0;
    std::uint32_t storage = kNoId, tensor = kNoId, span = kNoId;
    NameId op_name = kNoId, device = kNoId, dtype = kNoId;
    ShapeId shape = NumberLists::kEmpty;
    format::MemoryCategory category = format::MemoryCategory::kOther;
    format::MemoryAction action = format::MemoryAction::kAlloc;
  };
  struct ByTime {
    bool operator()(const Record& a, const Record& b) const { return a.timestamp_ns < b.timestamp_ns; }
  };
  // A further tensor id of a lifetime.
  struct Alias {
    std::uint64_t seen_ns = 0;
    std::uint32_t lifetime = 0, tensor = kNoId;
  };
  struct Point {
    std::uint64_t timestamp_ns = 0, live_bytes = 0;
    std::uint64_t changes = 0;  // how many of changes_ belong to it
  };
  // What a device or category has after a point that touched it.
  struct Change {
    std::uint64_t bytes = 0;
    std::uint32_t which = 0;
    bool is_category = false, live = false;
  };
  class Pass;

  TraceTables& tables_;
  std::unique_ptr<format::Sorter<Record, ByTime>> records_;  // until finish()
  bool observed_ = false;
  Totals totals_;
  std::vector<Device> devices_;
  format::PagedArray<Lifetime> lifetimes_;   // in the order of their opening
  format::PagedArray<std::uint32_t> order_;  // document order → lifetimes_
  format::PagedArray<Alias> aliases_;        // by lifetime
  format::PagedArray<Point> points_;
  format::PagedArray<Change> changes_;
  std::vector<std::uint32_t> rank_;  // Change::which of a device → index in devices_
};

}  // namespace tensortap::analyzers::candle
