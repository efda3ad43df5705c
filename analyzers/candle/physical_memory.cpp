#include "analyzers/candle/physical_memory.h"

#include <algorithm>

namespace tensortap::analyzers::candle {
namespace {

constexpr std::size_t kSorterBytes = std::size_t{4} << 20;

using Extreme = PhysicalMemory::Extreme;

// Keeps the better of both; of equal values the earlier.
template <class Better>
void take(std::optional<Extreme>& best, std::uint64_t bytes, std::uint64_t timestamp_ns, Better better) {
  if (!best || better(bytes, best->bytes)) {
    best = Extreme{bytes, timestamp_ns};
  } else if (bytes == best->bytes) {
    best->timestamp_ns = std::min(best->timestamp_ns, timestamp_ns);
  }
}

}  // namespace

PhysicalMemory::PhysicalMemory(TraceTables& tables)
    : tables_(tables), samples_(InOrder{&tables.names}, kSorterBytes) {}

PhysicalMemory::Device& PhysicalMemory::device_of(NameId name) {
  if (name >= slot_of_.size()) slot_of_.resize(name + 1);
  if (slot_of_[name] == 0) {
    devices_.emplace_back().name = name;
    slot_of_[name] = static_cast<std::uint32_t>(devices_.size());
  }
  return devices_[slot_of_[name] - 1];
}

void PhysicalMemory::on_device_memory(const format::DeviceMemory& event, const format::Place&) {
  Sample sample;
  sample.timestamp_ns = event.timestamp_ns;
  sample.device = tables_.names.add(event.device);
  Device& device = device_of(sample.device);
  ++device.samples;
  const std::array<const std::optional<std::uint64_t>*, kMembers> members = {
      &event.used_bytes, &event.free_bytes, &event.reserved_bytes, &event.capacity_bytes};
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (!*members[i]) continue;
    sample.known[i] = true;
    sample.bytes[i] = **members[i];
    ++device.observed[i];
  }
  const auto most = [](std::uint64_t a, std::uint64_t b) { return a > b; };
  const auto least = [](std::uint64_t a, std::uint64_t b) { return a < b; };
  if (event.used_bytes) take(device.peak_used, *event.used_bytes, event.timestamp_ns, most);
  if (event.free_bytes) take(device.least_free, *event.free_bytes, event.timestamp_ns, least);
  if (event.reserved_bytes) take(device.peak_reserved, *event.reserved_bytes, event.timestamp_ns, most);
  if (event.capacity_bytes) take(device.capacity, *event.capacity_bytes, event.timestamp_ns, most);
  samples_.add(sample);
}

std::vector<PhysicalMemory::Device> PhysicalMemory::devices() const {
  std::vector<Device> sorted = devices_;
  std::sort(sorted.begin(), sorted.end(),
            [&](const Device& a, const Device& b) { return tables_.names.compare(a.name, b.name) < 0; });
  return sorted;
}

}  // namespace tensortap::analyzers::candle
