// Allocations and frees of storages, judged in the order of their times (internal to format/health; §3.2:
// allocation_size_mismatch, duplicate_allocation, unpaired_free, retained_allocations).
//
// Records come nearly in order of time. The last ones are held back and put in order; a record that comes
// later than that matters only if a younger one of the same storage was judged before it. Then, if all were
// kept, all are judged once more.
//
//   StorageChecks storages(true);
//   storages.add(memory, tensors.number(memory.tensor_id), place);
//   storages.report(issues, tensors);
//
// Memory: pages; in memory only the further tensors of live storages that are aliased. Thread rules: one
// thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "format/event.h"
#include "format/health/issue_list.h"
#include "format/paging/id_index.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"

namespace tensortap::format {

class StorageChecks {
 public:
  explicit StorageChecks(bool keep_all) : keep_all_(keep_all) {}

  // `tensor`: the number of its tensor id.
  void add(const Memory& memory, std::uint32_t tensor, const Place& place);
  void report(IssueList& issues, const IdIndex& tensors);

  // Judged when they came, although a younger one of their storage had been judged.
  std::uint64_t late() const { return keep_all_ ? 0 : late_; }

 private:
  static constexpr std::size_t kHeldBack = 8192;

  struct Record {
    std::uint64_t time_ns = 0, bytes = 0;
    Place place;
    std::uint32_t storage = 0, tensor = 0;
    MemoryAction action = MemoryAction::kAlloc;
  };
  struct ByTime {
    bool operator()(const Record& a, const Record& b) const {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.place.index < b.place.index;
    }
  };
  enum class Fault : std::uint8_t { kSizeMismatch, kDuplicate, kUnpairedFree };
  struct Finding {
    Record record;
    std::uint64_t live_bytes = 0;
    Fault fault = Fault::kSizeMismatch;
  };
  struct ByRecord {
    bool operator()(const Finding& a, const Finding& b) const { return ByTime()(a.record, b.record); }
  };

  // The storages as they are after the records so far.
  struct State {
    struct Storage {
      std::uint64_t bytes = 0, latest_ns = 0;
      std::uint32_t tensor = 0;  // of the allocation that opened it
      bool live = false, aliased = false;
    };
    PagedArray<Storage> storages;
    std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>> aliases;
    std::uint64_t live = 0;
    Sorter<Finding, ByRecord> findings;

    // False: a younger record of the storage came before.
    bool judge(const Record& record);

   private:
    void allocate(Storage& storage, const Record& record);
    void free(Storage& storage, const Record& record);
    void find(Fault fault, const Record& record, std::uint64_t live_bytes);
  };

  std::uint32_t number(std::string_view device, std::string_view storage_id);
  void judge_held_back(std::size_t count);
  std::string name_of(std::uint32_t storage) const;
  void report(State& state, IssueList& issues, const IdIndex& tensors) const;

  bool keep_all_;
  IdIndex devices_{0}, ids_;  // ids_: "<number of the device>/<storage id>"
  std::string last_device_, id_;
  std::size_t id_prefix_ = 0;
  std::vector<Record> held_back_;
  bool in_order_ = true;  // held_back_ is
  PagedArray<Record> all_;
  std::uint64_t late_ = 0;
  State state_;
};

}  // namespace tensortap::format
