#include "analyzers/memory/live_set.h"

#include <algorithm>

#include "analyzers/calls/call_tree.h"

namespace tensortap::analyzers {
namespace {

std::string key_of(const MemoryEvent& event) {
  return std::to_string(event.allocation.device) + ' ' + event.storage_id;
}

}  // namespace

void LiveSet::apply(const MemoryEvent& event) {
  if (group_open_ && event.timestamp_ns != group_ns_) take_point();
  group_open_ = true;
  group_ns_ = event.timestamp_ns;

  Device& device = devices_[event.allocation.device];
  const auto found = live_.find(key_of(event));
  if (!event.is_free) {
    if (found != live_.end()) {
      if (found->second.bytes != event.allocation.bytes) ++totals_.size_mismatches;
      return;
    }
    Allocation opened = event.allocation;
    opened.start_ns = event.timestamp_ns;
    opened.serial = next_serial_++;
    ++totals_.allocations;
    ++device.allocations;
    for (std::uint64_t* sum : {&totals_.allocated_bytes, &device.allocated_bytes})
      *sum = saturating_add(*sum, opened.bytes);
    for (Wide* sum : {&totals_.live_bytes, &device.live_bytes}) *sum += opened.bytes;
    touch(event.allocation.device, device);
    live_.emplace(key_of(event), opened);
    return;
  }
  if (found == live_.end()) {
    ++totals_.unpaired_frees;
    return;
  }
  const Allocation& ended = found->second;
  if (ended.bytes != event.allocation.bytes) ++totals_.size_mismatches;
  ++totals_.frees;
  ++device.frees;
  for (Wide* sum : {&totals_.live_bytes, &device.live_bytes}) *sum -= ended.bytes;
  touch(event.allocation.device, device);
  if (peak_ && ended.serial < serial_at_peak_) freed_since_peak_.push_back(ended);
  live_.erase(found);
}

void LiveSet::finish() {
  if (group_open_) take_point();
  group_open_ = false;
}

void LiveSet::touch(NameId name, Device& device) {
  if (!device.touched) touched_.push_back(name);
  device.touched = true;
}

// A device that nothing touched has no new value, so it can have no greater peak.
void LiveSet::take_point() {
  for (const NameId name : touched_) {
    Device& device = devices_.at(name);
    device.touched = false;
    const std::uint64_t live_bytes = saturated(device.live_bytes);
    if (!device.peak || live_bytes > device.peak->live_bytes) device.peak = Point{group_ns_, live_bytes};
  }
  touched_.clear();
  if (totals_.allocations == 0) return;
  const std::uint64_t live_bytes = saturated(totals_.live_bytes);
  if (peak_ && live_bytes <= peak_->live_bytes) return;
  peak_ = Point{group_ns_, live_bytes};
  serial_at_peak_ = next_serial_;
  freed_since_peak_.clear();
}

std::vector<Allocation> LiveSet::live_at_peak() const {
  std::vector<Allocation> out = freed_since_peak_;
  for (const auto& [key, allocation] : live_) {
    if (allocation.serial < serial_at_peak_) out.push_back(allocation);
  }
  std::sort(out.begin(), out.end(), [](const Allocation& a, const Allocation& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.serial < b.serial;
  });
  return out;
}

}  // namespace tensortap::analyzers
