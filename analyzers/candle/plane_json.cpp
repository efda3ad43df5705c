#include "analyzers/candle/plane_json.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "format/event_names.h"

namespace tensortap::analyzers::candle {
namespace {

using Live = LogicalMemory::Live;

constexpr auto kCategoryNames = format::EnumNames<format::MemoryCategory>::names;

// Categories by the bytes of their names.
std::array<std::size_t, LogicalMemory::kCategories> categories_in_order() {
  std::array<std::size_t, LogicalMemory::kCategories> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [](std::size_t a, std::size_t b) { return kCategoryNames[a] < kCategoryNames[b]; });
  return order;
}

class LogicalJson {
 public:
  LogicalJson(JsonOut& json, const LogicalMemory& logical) : json_(json), logical_(logical) {}

  void write() {
    json_.begin_object();
    write_devices();
    json_.key("lifetimes");
    json_.begin_array();
    logical_.for_each_lifetime(
        [this](std::uint64_t, const Lifetime& life) { write_lifetime(life, nullptr); });
    json_.end_array();
    json_.member("matched_storage_free_count", logical_.totals().frees);
    write_peak();
    json_.member("storage_allocation_count", logical_.totals().allocations);
    json_.key("timeline");
    json_.begin_array();
    logical_.for_each_point([this](const Live& live) {
      json_.begin_object();
      write_live(live);
      json_.end_object();
      return true;
    });
    json_.end_array();
    json_.member("total_allocated_bytes", logical_.totals().allocated_bytes);
    json_.end_object();
  }

 private:
  void write_devices() {
    json_.key("by_device");
    json_.begin_array();
    for (const LogicalMemory::Device& device : logical_.devices()) {
      json_.begin_object();
      json_.member("device", logical_.tables().names.text(device.name));
      json_.member("matched_storage_free_count", device.frees);
      if (device.peak) {
        json_.member("peak_live_bytes", device.peak->live_bytes);
        json_.member("peak_timestamp_ns", device.peak->timestamp_ns);
      }
      json_.member("storage_allocation_count", device.allocations);
      json_.member("total_allocated_bytes", device.allocated_bytes);
      json_.end_object();
    }
    json_.end_array();
  }

  // With `peak`: as it was known then.
  void write_lifetime(const Lifetime& life, const LogicalMemory::Peak* peak) {
    const TraceTables& tables = logical_.tables();
    json_.begin_object();
    json_.member("allocation_span_id", tables.spans.text(life.span));
    json_.member("bytes", life.bytes);
    json_.member("category", format::enum_name(life.category));
    json_.member("device", tables.names.text(life.device));
    json_.member("dtype", tables.names.text(life.dtype));
    if (!life.open && peak == nullptr) json_.member("end_timestamp_ns", life.end_ns);
    json_.key("op_name");
    if (life.op_name == kNoId) {
      json_.null();
    } else {
      json_.text(tables.names.text(life.op_name));
    }
    json_.key("shape");
    json_.numbers(tables.shapes.get(life.shape));
    json_.member("start_timestamp_ns", life.start_ns);
    json_.member("storage_id", tables.storages.text(life.storage));
    json_.key("tensor_ids");
    json_.begin_array();
    logical_.for_each_tensor(
        life, [&](std::uint32_t tensor) { json_.text(tables.tensors.text(tensor)); },
        peak != nullptr ? peak->timestamp_ns : ~std::uint64_t{0});
    json_.end_array();
    json_.end_object();
  }

  void write_live(const Live& live) {
    json_.member("live_bytes", live.live_bytes);
    json_.key("live_bytes_by_category");
    json_.begin_object();
    for (const std::size_t i : category_order_) {
      if (live.by_category[i]) json_.member(kCategoryNames[i], *live.by_category[i]);
    }
    json_.end_object();
    json_.key("live_bytes_by_device");
    json_.begin_object();
    for (const auto& [device, bytes] : live.by_device)
      json_.member(logical_.tables().names.text(logical_.devices()[device].name), bytes);
    json_.end_object();
    json_.member("timestamp_ns", live.timestamp_ns);
  }

  void write_peak() {
    const auto live = logical_.at_peak();
    if (!live) return;
    const LogicalMemory::Peak peak = *logical_.totals().peak;
    json_.key("peak");
    json_.begin_object();
    json_.key("live_allocations");
    json_.begin_array();
    logical_.for_each_lifetime([&](std::uint64_t, const Lifetime& life) {
      if (life.live_after(peak.timestamp_ns)) write_lifetime(life, &peak);
    });
    json_.end_array();
    write_live(*live);
    json_.end_object();
  }

  JsonOut& json_;
  const LogicalMemory& logical_;
  const std::array<std::size_t, LogicalMemory::kCategories> category_order_ = categories_in_order();
};

void write_known(JsonOut& json, const char* name, const PhysicalMemory::Sample& sample,
                 PhysicalMemory::Member member) {
  if (sample.known[member]) json.member(name, sample.bytes[member]);
}

void write_extreme(JsonOut& json, const char* bytes, const char* timestamp_ns,
                   const std::optional<PhysicalMemory::Extreme>& extreme) {
  if (!extreme) return;
  json.member(bytes, extreme->bytes);
  json.member(timestamp_ns, extreme->timestamp_ns);
}

void write_physical(JsonOut& json, const PhysicalMemory& physical) {
  const NameTable& names = physical.tables().names;
  json.begin_object();
  json.key("by_device");
  json.begin_array();
  for (const PhysicalMemory::Device& device : physical.devices()) {
    json.begin_object();
    json.member("capacity_sample_count", device.observed[PhysicalMemory::kCapacity]);
    json.member("device", names.text(device.name));
    json.member("free_sample_count", device.observed[PhysicalMemory::kFree]);
    if (device.capacity) json.member("maximum_observed_capacity_bytes", device.capacity->bytes);
    write_extreme(json, "minimum_free_bytes", "minimum_free_timestamp_ns", device.least_free);
    write_extreme(json, "peak_reserved_bytes", "peak_reserved_timestamp_ns", device.peak_reserved);
    write_extreme(json, "peak_used_bytes", "peak_used_timestamp_ns", device.peak_used);
    json.member("reserved_sample_count", device.observed[PhysicalMemory::kReserved]);
    json.member("sample_count", device.samples);
    json.member("used_sample_count", device.observed[PhysicalMemory::kUsed]);
    json.end_object();
  }
  json.end_array();
  json.key("timeline");
  json.begin_array();
  physical.for_each_sample([&](const PhysicalMemory::Sample& sample) {
    json.begin_object();
    write_known(json, "capacity_bytes", sample, PhysicalMemory::kCapacity);
    json.member("device", names.text(sample.device));
    write_known(json, "free_bytes", sample, PhysicalMemory::kFree);
    write_known(json, "reserved_bytes", sample, PhysicalMemory::kReserved);
    json.member("timestamp_ns", sample.timestamp_ns);
    write_known(json, "used_bytes", sample, PhysicalMemory::kUsed);
    json.end_object();
  });
  json.end_array();
  json.end_object();
}

void write_names(JsonOut& json, const char* key, const TraceTables& tables, ShapeId set) {
  json.key(key);
  json.begin_array();
  for (const std::uint64_t name : tables.shapes.get(set))
    json.text(tables.names.text(static_cast<NameId>(name)));
  json.end_array();
}

}  // namespace

void write_memory(JsonOut& json, const LogicalMemory& logical, const PhysicalMemory& physical) {
  json.begin_object();
  if (logical.observed()) {
    json.key("logical");
    LogicalJson(json, logical).write();
  }
  if (physical.observed()) {
    json.key("physical");
    write_physical(json, physical);
  }
  json.end_object();
}

void write_timing(JsonOut& json, const DeviceTiming& timing, format::Coverage declared) {
  const TraceTables& tables = timing.tables();
  json.begin_object();
  json.key("device_clocks");
  json.begin_array();
  for (const DeviceTiming::ClockRow& row : timing.clocks()) {
    json.begin_object();
    json.member("busy_ns", row.busy_ns);
    json.member("clock_id", tables.names.text(row.clock));
    json.member("device", tables.names.text(row.device));
    json.member("interval_count", row.interval_count);
    json.end_object();
  }
  json.end_array();
  json.member("device_coverage", format::enum_name(timing.coverage(declared)));
  json.key("device_spans");
  json.begin_array();
  timing.for_each_span_row([&](const DeviceTiming::SpanRow& row) {
    json.begin_object();
    write_names(json, "backends", tables, row.backends);
    json.member("busy_ns", row.busy_ns);
    json.member("clock_id", tables.names.text(row.clock));
    json.member("device", tables.names.text(row.device));
    json.member("interval_count", row.interval_count);
    json.member("span_id", tables.spans.text(row.span));
    write_names(json, "streams", tables, row.streams);
    json.end_object();
  });
  json.end_array();
  json.end_object();
}

}  // namespace tensortap::analyzers::candle
