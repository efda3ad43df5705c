#include "analyzers/candle/logical_memory.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tensortap::analyzers::candle {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSorterBytes = 8 * kMiB;
constexpr std::size_t kTableBytes = 2 * kMiB;

// The live storages: which lifetime a device's storage is in. A storage id belongs to one device nearly
// always: to the one that first used it. Others that use the same id get a number for the pair.
class LiveStorages {
 public:
  // kNoId: not live.
  std::uint32_t& lifetime_of(NameId device, std::uint32_t storage) {
    homes_.grow(storage + std::size_t{1});
    Home& home = homes_.edit(storage);
    if (home.device == kNoId) home.device = device;
    if (home.device == device) return home.lifetime;
    const std::uint32_t pair = pairs_.add(std::to_string(device) + '/' + std::to_string(storage));
    others_.grow(pair + std::size_t{1}, kNoId);
    return others_.edit(pair);
  }

 private:
  struct Home {
    NameId device = kNoId;
    std::uint32_t lifetime = kNoId;
  };
  format::PagedArray<Home> homes_{4 * kMiB};                   // by storage
  format::IdIndex pairs_{kTableBytes / 2};                     // "device/storage"
  format::PagedArray<std::uint32_t> others_{kTableBytes / 2};  // by pair
};

struct LiveSum {
  Wide bytes = 0;
  std::uint64_t storages = 0;
  bool touched = false;  // in this group
};

}  // namespace

// The walk over the records in time order. Records of one timestamp are a group: all of it is applied, then
// one point is taken.
class LogicalMemory::Pass {
 public:
  explicit Pass(LogicalMemory& memory)
      : memory_(memory), tables_(memory.tables_), aliases_(AliasLess{}, kTableBytes) {}

  void take(const Record& record) {
    if (any_ && record.timestamp_ns != now_) close_group();
    any_ = true;
    now_ = record.timestamp_ns;
    const std::uint32_t device = device_of(record.device);
    std::uint32_t& live = storages_.lifetime_of(record.device, record.storage);
    if (record.action == format::MemoryAction::kFree) {
      if (live != kNoId) end(live, device, record);
      live = kNoId;
    } else if (live == kNoId) {
      live = begin(device, record);
    } else {
      see_tensor(live, record);
    }
  }

  void finish() {
    if (any_) close_group();
    memory_.totals_.allocated_bytes = saturated(allocated_);
    for (std::size_t i = 0; i < device_sums_.size(); ++i)
      memory_.devices_[i].allocated_bytes = saturated(device_sums_[i].allocated);
    store_aliases();
    sort_devices();
  }

 private:
  struct DeviceSum : LiveSum {
    Wide allocated = 0;
  };
  struct AliasLess {  // of equal ones the first seen stays in front
    bool operator()(const Alias& a, const Alias& b) const {
      return a.lifetime != b.lifetime ? a.lifetime < b.lifetime : a.tensor < b.tensor;
    }
  };

  std::uint32_t device_of(NameId name) {
    if (name >= slot_of_.size()) slot_of_.resize(name + std::size_t{1}, kNoId);
    if (slot_of_[name] == kNoId) {
      slot_of_[name] = static_cast<std::uint32_t>(memory_.devices_.size());
      memory_.devices_.emplace_back().name = name;
      device_sums_.emplace_back();
    }
    return slot_of_[name];
  }

  void touch(std::uint32_t device, format::MemoryCategory category) {
    if (!device_sums_[device].touched) touched_.push_back(device);
    device_sums_[device].touched = true;
    categories_[static_cast<std::size_t>(category)].touched = true;
  }

  std::uint32_t begin(std::uint32_t device, const Record& record) {
    Lifetime life;
    life.start_ns = record.timestamp_ns;
    life.bytes = record.bytes;
    life.device = record.device;
    life.storage = record.storage;
    life.span = record.span;
    life.op_name = record.op_name;
    life.dtype = record.dtype;
    life.shape = record.shape;
    life.tensor = record.tensor;
    life.category = record.category;
    DeviceSum& sum = device_sums_[device];
    LiveSum& category = categories_[static_cast<std::size_t>(record.category)];
    for (Wide* bytes : {&live_, &allocated_, &sum.bytes, &sum.allocated, &category.bytes})
      *bytes += record.bytes;
    for (std::uint64_t* count : {&sum.storages, &category.storages, &memory_.totals_.allocations,
                                 &memory_.devices_[device].allocations})
      ++*count;
    touch(device, record.category);
    return static_cast<std::uint32_t>(memory_.lifetimes_.push_back(life));
  }

  void end(std::uint32_t lifetime, std::uint32_t device, const Record& record) {
    see_tensor(lifetime, record);
    Lifetime& life = memory_.lifetimes_.edit(lifetime);
    life.open = false;
    life.end_ns = record.timestamp_ns;
    DeviceSum& sum = device_sums_[device];
    LiveSum& category = categories_[static_cast<std::size_t>(life.category)];
    for (Wide* bytes : {&live_, &sum.bytes, &category.bytes}) *bytes -= life.bytes;
    --sum.storages;
    --category.storages;
    ++memory_.totals_.frees;
    ++memory_.devices_[device].frees;
    touch(device, life.category);
  }

  // The storage is mostly freed by the tensor that allocated it: nothing to note then.
  void see_tensor(std::uint32_t lifetime, const Record& record) {
    if (memory_.lifetimes_[lifetime].tensor != record.tensor)
      aliases_.add({record.timestamp_ns, lifetime, record.tensor});
  }

  void close_group() {
    Point point;
    point.timestamp_ns = now_;
    point.live_bytes = saturated(live_);
    for (const std::uint32_t device : touched_) {
      DeviceSum& sum = device_sums_[device];
      note(point, device, false, sum);
      take_peak(memory_.devices_[device], saturated(sum.bytes));
    }
    touched_.clear();
    for (std::size_t i = 0; i < kCategories; ++i) {
      if (categories_[i].touched) note(point, static_cast<std::uint32_t>(i), true, categories_[i]);
    }
    take_peak(memory_.totals_, point.live_bytes);
    memory_.points_.push_back(point);
    put_in_order();
  }

  void note(Point& point, std::uint32_t which, bool is_category, LiveSum& sum) {
    sum.touched = false;
    memory_.changes_.push_back({saturated(sum.bytes), which, is_category, sum.storages != 0});
    ++point.changes;
  }

  // Only a greater one replaces it: of equal peaks the earliest stays. A device that nothing touched has no
  // new value, so it need not be looked at.
  void take_peak(Totals& totals, std::uint64_t live_bytes) const {
    if (totals.allocations == 0) return;
    if (!totals.peak || live_bytes > totals.peak->live_bytes) totals.peak = Peak{now_, live_bytes};
  }

  // Lifetimes are opened by time; those of one timestamp are ordered by device and storage id.
  void put_in_order() {
    const std::uint64_t first = memory_.order_.size(), end = memory_.lifetimes_.size();
    if (end - first <= 1) {
      if (end != first) memory_.order_.push_back(static_cast<std::uint32_t>(first));
      return;
    }
    struct Key {
      TextKey storage_text;
      NameId device;
      std::uint32_t storage, lifetime;
    };
    const auto less = [this](const Key& a, const Key& b) {
      if (const auto order = tables_.names.compare(a.device, b.device); order != 0) return order < 0;
      if (a.storage_text != b.storage_text) return a.storage_text < b.storage_text;
      return tables_.storages.compare(a.storage, b.storage) < 0;
    };
    format::Sorter<Key, decltype(less)> sorter(less, kTableBytes);
    for (std::uint64_t i = first; i < end; ++i) {
      const Lifetime& life = memory_.lifetimes_[i];
      sorter.add({TextKey(tables_.storages.text(life.storage)), life.device, life.storage,
                  static_cast<std::uint32_t>(i)});
    }
    sorter.for_each([this](const Key& key) { memory_.order_.push_back(key.lifetime); });
  }

  // Each lifetime's further tensor ids side by side, each once with the time it was first seen.
  void store_aliases() {
    std::uint32_t of = kNoId, tensor = kNoId;
    aliases_.for_each([&](const Alias& alias) {
      if (alias.lifetime == of && alias.tensor == tensor) return;
      Lifetime& life = memory_.lifetimes_.edit(alias.lifetime);
      if (alias.lifetime != of) life.alias_begin = static_cast<std::uint32_t>(memory_.aliases_.size());
      ++life.alias_count;
      memory_.aliases_.push_back(alias);
      of = alias.lifetime;
      tensor = alias.tensor;
    });
  }

  void sort_devices() {
    std::vector<std::uint32_t> by_name(memory_.devices_.size());
    for (std::uint32_t i = 0; i < by_name.size(); ++i) by_name[i] = i;
    std::sort(by_name.begin(), by_name.end(), [this](std::uint32_t a, std::uint32_t b) {
      return tables_.names.compare(memory_.devices_[a].name, memory_.devices_[b].name) < 0;
    });
    std::vector<Device> sorted;
    memory_.rank_.resize(by_name.size());
    for (const std::uint32_t slot : by_name) {
      memory_.rank_[slot] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(memory_.devices_[slot]);
    }
    memory_.devices_ = std::move(sorted);
  }

  LogicalMemory& memory_;
  TraceTables& tables_;
  LiveStorages storages_;
  format::Sorter<Alias, AliasLess> aliases_;
  std::vector<std::uint32_t> slot_of_;  // by name: the device's index
  std::vector<DeviceSum> device_sums_;
  std::array<LiveSum, kCategories> categories_;
  std::vector<std::uint32_t> touched_;  // devices of this group
  Wide live_ = 0, allocated_ = 0;
  std::uint64_t now_ = 0;
  bool any_ = false;
};

LogicalMemory::LogicalMemory(TraceTables& tables)
    : tables_(tables),
      records_(std::make_unique<format::Sorter<Record, ByTime>>(ByTime{}, kSorterBytes)),
      lifetimes_(2 * kTableBytes),
      order_(kTableBytes / 2),
      aliases_(kTableBytes / 2),
      points_(kTableBytes / 2),
      changes_(kTableBytes / 2) {}

LogicalMemory::~LogicalMemory() = default;

void LogicalMemory::on_memory(const format::Memory& event, const format::Place&) {
  observed_ = true;
  Record record;
  record.timestamp_ns = event.timestamp_ns;
  record.bytes = event.bytes;
  record.storage = tables_.storages.add(event.storage_id);
  record.tensor = tables_.tensors.add(event.tensor_id);
  record.span = tables_.spans.add(event.span_id);
  if (event.op_name) record.op_name = tables_.names.add(*event.op_name);
  record.device = tables_.names.add(event.device);
  record.dtype = tables_.names.add(event.dtype);
  record.shape = tables_.shapes.add(event.shape);
  record.category = event.category;
  record.action = event.action;
  records_->add(record);
}

void LogicalMemory::finish() {
  Pass pass(*this);
  records_->for_each([&](const Record& record) { pass.take(record); });
  records_.reset();
  pass.finish();
}

void LogicalMemory::for_each_tensor(const Lifetime& life, const std::function<void(std::uint32_t)>& take,
                                    std::uint64_t until_ns) const {
  if (life.alias_count == 0) {
    take(life.tensor);
    return;
  }
  struct Key {
    TextKey text;
    std::uint32_t tensor;
  };
  const auto less = [this](const Key& a, const Key& b) {
    if (a.text != b.text) return a.text < b.text;
    return tables_.tensors.compare(a.tensor, b.tensor) < 0;
  };
  format::Sorter<Key, decltype(less)> sorter(less, kTableBytes);
  const auto add = [&](std::uint32_t tensor) { sorter.add({TextKey(tables_.tensors.text(tensor)), tensor}); };
  add(life.tensor);
  for (std::uint64_t i = 0; i < life.alias_count; ++i) {
    const Alias alias = aliases_[life.alias_begin + i];
    if (alias.seen_ns <= until_ns) add(alias.tensor);
  }
  sorter.for_each([&](const Key& key) { take(key.tensor); });
}

void LogicalMemory::for_each_point(const std::function<bool(const Live&)>& take) const {
  Live live;
  std::uint64_t change = 0;
  for (std::uint64_t i = 0; i < points_.size(); ++i) {
    const Point point = points_[i];
    live.timestamp_ns = point.timestamp_ns;
    live.live_bytes = point.live_bytes;
    for (const std::uint64_t end = change + point.changes; change < end; ++change) {
      const Change now = changes_[change];
      if (now.is_category) {
        live.by_category[now.which] = now.live ? std::optional(now.bytes) : std::nullopt;
      } else if (now.live) {
        live.by_device[rank_[now.which]] = now.bytes;
      } else {
        live.by_device.erase(rank_[now.which]);
      }
    }
    if (!take(live)) return;
  }
}

std::optional<LogicalMemory::Live> LogicalMemory::at_peak() const {
  std::optional<Live> found;
  if (!totals_.peak) return found;
  for_each_point([&](const Live& live) {
    if (live.timestamp_ns != totals_.peak->timestamp_ns) return true;
    found = live;
    return false;
  });
  return found;
}

}  // namespace tensortap::analyzers::candle
