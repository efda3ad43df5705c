// Physical memory (trace/10 specification §4.3): the samples of device memory in time order, and per device
// what was observed, its maxima and minima. The four members of a sample are independent of each other; none
// is worked out from others, and none is combined with logical memory.
//
//   PhysicalMemory physical(tables);
//   physical.on_device_memory(event, place);
//   physical.for_each_sample([&](const PhysicalMemory::Sample& sample) { … });   // by time, then device
//   for (const PhysicalMemory::Device& device : physical.devices()) …            // by name
//
// Memory: the budget of one sorter (4 MiB), some 200 bytes per device. Thread rules: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {

class PhysicalMemory final : public format::EventVisitor {
 public:
  enum Member : std::uint8_t { kUsed, kFree, kReserved, kCapacity, kMembers };

  struct Sample {
    std::uint64_t timestamp_ns = 0;
    std::array<std::uint64_t, kMembers> bytes{};
    NameId device = kNoId;
    std::array<bool, kMembers> known{};
  };
  struct Extreme {
    std::uint64_t bytes = 0, timestamp_ns = 0;  // of equal ones the earliest
  };
  struct Device {
    NameId name = kNoId;
    std::uint64_t samples = 0;
    std::array<std::uint64_t, kMembers> observed{};  // samples that have the member
    std::optional<Extreme> peak_used, peak_reserved, least_free, capacity;
  };

  explicit PhysicalMemory(TraceTables& tables);

  void on_device_memory(const format::DeviceMemory& event, const format::Place& place) override;

  bool observed() const { return samples_.size() != 0; }
  std::vector<Device> devices() const;  // by the bytes of their names
  // By time, then device; equal ones in stream order. More records may follow.
  template <class Take>
  void for_each_sample(Take take) const {
    samples_.for_each(take);
  }

  const TraceTables& tables() const { return tables_; }

 private:
  struct InOrder {
    const NameTable* names;
    bool operator()(const Sample& a, const Sample& b) const {
      if (a.timestamp_ns != b.timestamp_ns) return a.timestamp_ns < b.timestamp_ns;
      return names->compare(a.device, b.device) < 0;
    }
  };

  Device& device_of(NameId name);

  TraceTables& tables_;
  mutable format::Sorter<Sample, InOrder> samples_;
  std::vector<Device> devices_;         // in the order of first sight
  std::vector<std::uint32_t> slot_of_;  // by name: 1 + index in devices_; 0: none
};

}  // namespace tensortap::analyzers::candle
