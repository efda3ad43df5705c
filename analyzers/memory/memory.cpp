#include "analyzers/memory/memory.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "analyzers/calls/ext_fields.h"

namespace tensortap::analyzers {
namespace {

constexpr std::string_view kMethod = "storage records in time order, one point per timestamp";

// Orders a heap so that the earliest event is on top.
bool later(const MemoryEvent& a, const MemoryEvent& b) {
  return a.timestamp_ns != b.timestamp_ns ? a.timestamp_ns > b.timestamp_ns : a.index > b.index;
}

const char* category_name(format::MemoryCategory category) {
  switch (category) {
    case format::MemoryCategory::kParameter:
      return "parameter";
    case format::MemoryCategory::kActivation:
      return "activation";
    case format::MemoryCategory::kGradient:
      return "gradient";
    case format::MemoryCategory::kOptimizer:
      return "optimizer";
    case format::MemoryCategory::kOther:
      return "other";
  }
  return "?";
}

// Bytes and number of allocations that share a label.
struct Share {
  std::uint64_t bytes = 0, allocations = 0;
};
using Shares = std::map<std::string, Share>;

void add(Shares& shares, std::string_view label, const Allocation& allocation) {
  Share& share = shares[std::string(label)];
  share.bytes = saturating_add(share.bytes, allocation.bytes);
  ++share.allocations;
}

boost::json::array rows_of(const Shares& shares) {
  std::vector<std::pair<std::string_view, Share>> sorted(shares.begin(), shares.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  boost::json::array rows;
  for (const auto& [label, share] : sorted) {
    rows.push_back({{"name", label.empty() ? boost::json::value(nullptr) : boost::json::value(label)},
                    {"bytes", share.bytes},
                    {"allocations", share.allocations}});
  }
  return rows;
}

}  // namespace

void MemoryAnalyzer::Timeline::apply_earliest() {
  std::pop_heap(waiting.begin(), waiting.end(), later);
  const MemoryEvent event = std::move(waiting.back());
  waiting.pop_back();
  if (event.timestamp_ns < applied_ns) ++late;
  applied_ns = std::max(applied_ns, event.timestamp_ns);
  live.apply(event);
}

void MemoryAnalyzer::Timeline::finish() {
  while (!waiting.empty()) apply_earliest();
  live.finish();
}

void MemoryAnalyzer::on_meta(const format::Meta& event, const format::Place&) {
  if (!disorder_ns_) disorder_ns_ = ExtFields(event.ext).integer("disorder_ns");
}

void MemoryAnalyzer::on_memory(const format::Memory& event, const format::Place& place) {
  ++events_;
  MemoryEvent kept;
  kept.timestamp_ns = event.timestamp_ns;
  kept.index = place.index;
  kept.is_free = event.action == format::MemoryAction::kFree;
  kept.storage_id = event.storage_id;
  kept.allocation.bytes = event.bytes;
  kept.allocation.device = names_.intern(event.device);
  if (!kept.is_free) {
    kept.allocation.category = event.category;
    if (event.op_name) kept.allocation.op = names_.intern(*event.op_name);
    const Span* span = tree_.find(event.span_id);
    if (!event.op_name) {
      const Span* op = tree_.nearest(span, Ancestors::kOp);
      if (op) kept.allocation.op = names_.intern(tree_.names().text(op->name));
    }
    const Span* module = tree_.nearest(span, Ancestors::kModule);
    if (module) kept.allocation.module = names_.intern(tree_.names().text(module->name));
    const Span* step = tree_.nearest(span, Ancestors::kIteration);
    if (step) kept.allocation.step = step->step_number;
  }
  timeline_.newest_ns = std::max(timeline_.newest_ns, event.timestamp_ns);
  timeline_.waiting.push_back(std::move(kept));
  std::push_heap(timeline_.waiting.begin(), timeline_.waiting.end(), later);
  while (!timeline_.waiting.empty() &&
         (timeline_.waiting.size() > kMostWaiting ||
          (disorder_ns_ &&
           saturating_add(timeline_.waiting.front().timestamp_ns, *disorder_ns_) < timeline_.newest_ns))) {
    timeline_.apply_earliest();
  }
}

void MemoryAnalyzer::on_device_memory(const format::DeviceMemory& event, const format::Place&) {
  auto found = sampled_.find(event.device);
  if (found == sampled_.end()) found = sampled_.emplace(std::string(event.device), Sampled()).first;
  Sampled& device = found->second;
  ++device.samples;
  if (event.used_bytes &&
      (!device.used_bytes || *event.used_bytes > *device.used_bytes ||
       (*event.used_bytes == *device.used_bytes && event.timestamp_ns < device.used_ns))) {
    device.used_bytes = event.used_bytes;
    device.used_ns = event.timestamp_ns;
  }
  if (event.reserved_bytes)
    device.reserved_bytes = std::max(device.reserved_bytes.value_or(0), *event.reserved_bytes);
  if (event.capacity_bytes)
    device.capacity_bytes = std::max(device.capacity_bytes.value_or(0), *event.capacity_bytes);
}

boost::json::object MemoryAnalyzer::peak(const LiveSet& live, FigureStatus status) const {
  const LiveSet::Point point = live.peak().value_or(LiveSet::Point());
  if (!live.peak()) status = FigureStatus::kUnavailable;
  boost::json::object out;
  out["live"] = figure(point.live_bytes, Unit::kBytes, "all devices", kMethod, status);
  out["time"] = figure(point.timestamp_ns, Unit::kNanoseconds, "all devices",
                       "first time of the greatest live bytes", status);

  Shares devices, categories, operators, modules, steps;
  const std::vector<Allocation> held = live.live_at_peak();
  boost::json::array largest;
  for (const Allocation& allocation : held) {
    add(devices, names_.text(allocation.device), allocation);
    add(categories, category_name(allocation.category), allocation);
    add(operators, names_.text(allocation.op), allocation);
    add(modules, names_.text(allocation.module), allocation);
    add(steps, allocation.step ? std::to_string(*allocation.step) : "", allocation);
    if (largest.size() >= kMostListed) continue;
    boost::json::object row{{"bytes", allocation.bytes},
                            {"device", names_.text(allocation.device)},
                            {"allocated", allocation.start_ns}};
    if (allocation.op != kNoName) row["operator"] = names_.text(allocation.op);
    if (allocation.module != kNoName) row["module"] = names_.text(allocation.module);
    if (allocation.step) row["step"] = *allocation.step;
    largest.push_back(std::move(row));
  }
  out["columns"] = {{"bytes", column(Unit::kBytes, "live at the peak", kMethod, status)},
                    {"allocations", column(Unit::kCount, "live at the peak", kMethod, status)},
                    {"allocated", column(Unit::kNanoseconds, "allocation", "time of its record", status)}};
  out["by_device"] = rows_of(devices);
  out["by_category"] = rows_of(categories);
  out["by_operator"] = rows_of(operators);
  out["by_module"] = rows_of(modules);
  out["by_step"] = rows_of(steps);
  out["largest"] = std::move(largest);
  return out;
}

boost::json::object MemoryAnalyzer::by_device(const LiveSet& live, FigureStatus status) const {
  std::map<std::string_view, const LiveSet::Device*> sorted;
  for (const auto& [name, device] : live.devices()) sorted[names_.text(name)] = &device;
  boost::json::array rows;
  for (const auto& [name, device] : sorted) {
    boost::json::object row{{"device", name},
                            {"allocated", device->allocated_bytes},
                            {"allocations", device->allocations},
                            {"frees", device->frees}};
    if (device->peak) {
      row["peak"] = device->peak->live_bytes;
      row["peak_time"] = device->peak->timestamp_ns;
    }
    rows.push_back(std::move(row));
  }
  return {{"columns",
           {{"allocated", column(Unit::kBytes, "device", "sum of the sizes allocated", status)},
            {"allocations", column(Unit::kCount, "device", "storages allocated", status)},
            {"frees", column(Unit::kCount, "device", "storages freed", status)},
            {"peak", column(Unit::kBytes, "device", kMethod, status)},
            {"peak_time", column(Unit::kNanoseconds, "device",
                                 "first time of the device's greatest live bytes", status)}}},
          {"rows", std::move(rows)}};
}

boost::json::object MemoryAnalyzer::sampled(const ReportContext& context) const {
  const FigureStatus status = context.status(context.contract().physical_memory, sampled_.size());
  boost::json::array rows;
  for (const auto& [name, device] : sampled_) {
    boost::json::object row{{"device", name}, {"samples", device.samples}};
    if (device.used_bytes) {
      row["used"] = *device.used_bytes;
      row["used_time"] = device.used_ns;
    }
    if (device.reserved_bytes) row["reserved"] = *device.reserved_bytes;
    if (device.capacity_bytes) row["capacity"] = *device.capacity_bytes;
    rows.push_back(std::move(row));
  }
  return {{"columns",
           {{"samples", column(Unit::kCount, "device", "device_memory records", status)},
            {"used", column(Unit::kBytes, "device", "greatest sample", status)},
            {"used_time", column(Unit::kNanoseconds, "device", "first time of the greatest sample", status)},
            {"reserved", column(Unit::kBytes, "device", "greatest sample", status)},
            {"capacity", column(Unit::kBytes, "device", "greatest sample", status)}}},
          {"rows", std::move(rows)}};
}

boost::json::object MemoryAnalyzer::report(const ReportContext& context) const {
  Timeline timeline = timeline_;
  timeline.finish();
  const LiveSet& live = timeline.live;
  const LiveSet::Totals& totals = live.totals();
  FigureStatus status = context.status(context.contract().logical_memory, events_);
  if (timeline.late != 0) status = weaker(status, FigureStatus::kPartial);

  constexpr std::string_view kScope = "all devices";
  boost::json::object out;
  out["peak"] = peak(live, status);
  out["allocated"] = figure(totals.allocated_bytes, Unit::kBytes, kScope,
                            "sum of the sizes of the storages allocated", status);
  out["allocations"] =
      figure(totals.allocations, Unit::kCount, kScope, "storages allocated; aliases do not count", status);
  out["frees"] =
      figure(totals.frees, Unit::kCount, kScope, "storages freed that were allocated in the trace", status);
  out["retained"] = figure(live.live_count(), Unit::kCount, kScope, "storages still live at the end", status);
  out["retained_bytes"] = figure(saturated(totals.live_bytes), Unit::kBytes, kScope, "their sizes", status);
  out["by_device"] = by_device(live, status);
  out["problems"] = {{"unpaired_free", totals.unpaired_frees},
                     {"allocation_size_mismatch", totals.size_mismatches},
                     {"late_record", timeline.late}};
  out["sampled"] = sampled(context);
  return out;
}

}  // namespace tensortap::analyzers
