#include "format/health/storage.h"

#include <algorithm>
#include <optional>

#include "format/text.h"

namespace tensortap::format {

// ---- State

void StorageChecks::State::find(Fault fault, const Record& record, std::uint64_t live_bytes) {
  findings.add({record, live_bytes, fault});
}

bool StorageChecks::State::judge(const Record& record) {
  if (storages.size() <= record.storage) storages.grow(std::size_t{record.storage} + 1);
  Storage& storage = storages.edit(record.storage);
  const bool in_order = record.time_ns >= storage.latest_ns;
  storage.latest_ns = std::max(storage.latest_ns, record.time_ns);
  record.action == MemoryAction::kAlloc ? allocate(storage, record) : free(storage, record);
  return in_order;
}

void StorageChecks::State::allocate(Storage& storage, const Record& record) {
  if (!storage.live) {
    storage.live = true;
    storage.aliased = false;
    storage.bytes = record.bytes;
    storage.tensor = record.tensor;
    ++live;
  } else if (storage.bytes != record.bytes) {
    find(Fault::kSizeMismatch, record, storage.bytes);
  } else if (storage.tensor == record.tensor) {
    find(Fault::kDuplicate, record, storage.bytes);
  } else {
    storage.aliased = true;
    if (!aliases[record.storage].insert(record.tensor).second) {
      find(Fault::kDuplicate, record, storage.bytes);
    }
  }
}

void StorageChecks::State::free(Storage& storage, const Record& record) {
  if (!storage.live) return find(Fault::kUnpairedFree, record, 0);
  if (storage.bytes != record.bytes) find(Fault::kSizeMismatch, record, storage.bytes);
  if (storage.aliased) aliases.erase(record.storage);
  storage.live = false;
  --live;
}

// ---- Records

std::uint32_t StorageChecks::number(std::string_view device, std::string_view storage_id) {
  if (id_prefix_ == 0 || device != last_device_) {
    last_device_ = device;
    id_ = std::to_string(devices_.add(device)) + '/';
    id_prefix_ = id_.size();
  }
  id_.resize(id_prefix_);
  id_ += storage_id;
  return ids_.add(id_);
}

std::string StorageChecks::name_of(std::uint32_t storage) const {
  const std::string id = ids_.text(storage);
  const std::size_t slash = id.find('/');
  const auto device = static_cast<std::uint32_t>(std::stoul(id.substr(0, slash)));
  return "storage " + in_quotes(id.substr(slash + 1)) + " of device " + in_quotes(devices_.text(device));
}

void StorageChecks::add(const Memory& memory, std::uint32_t tensor, const Place& place) {
  const Record record{
      memory.timestamp_ns, memory.bytes, place, number(memory.device, memory.storage_id), tensor,
      memory.action};
  if (keep_all_) all_.push_back(record);
  if (!held_back_.empty() && record.time_ns < held_back_.back().time_ns) in_order_ = false;
  held_back_.push_back(record);
  if (held_back_.size() == 2 * kHeldBack) judge_held_back(kHeldBack);
}

void StorageChecks::judge_held_back(std::size_t count) {
  if (!in_order_) std::sort(held_back_.begin(), held_back_.end(), ByTime());
  in_order_ = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (!state_.judge(held_back_[i])) ++late_;
  }
  held_back_.erase(held_back_.begin(), held_back_.begin() + static_cast<std::ptrdiff_t>(count));
}

void StorageChecks::report(IssueList& issues, const IdIndex& tensors) {
  judge_held_back(held_back_.size());
  if (late_ == 0 || !keep_all_) return report(state_, issues, tensors);
  Sorter<Record, ByTime> by_time;
  all_.for_each([&](const Record& record) { by_time.add(record); });
  State state;
  by_time.for_each([&](const Record& record) { state.judge(record); });
  report(state, issues, tensors);
}

void StorageChecks::report(State& state, IssueList& issues, const IdIndex& tensors) const {
  state.findings.for_each([&](const Finding& finding) {
    const Record& record = finding.record;
    const auto bytes = std::to_string(record.bytes), live = std::to_string(finding.live_bytes);
    switch (finding.fault) {
      case Fault::kSizeMismatch:
        return issues.error("allocation_size_mismatch", record.place, [&] {
          return name_of(record.storage) + " has " + live + " bytes and is " +
                 (record.action == MemoryAction::kAlloc ? "allocated" : "freed") + " with " + bytes;
        });
      case Fault::kDuplicate:
        return issues.error("duplicate_allocation", record.place, [&] {
          return name_of(record.storage) + " is live and is allocated again for tensor " +
                 in_quotes(tensors.text(record.tensor));
        });
      case Fault::kUnpairedFree:
        return issues.error("unpaired_free", record.place,
                            [&] { return name_of(record.storage) + " is freed and is not live"; });
    }
  });
  if (state.live != 0) {
    issues.warning("retained_allocations", std::nullopt, [&] {
      return std::to_string(state.live) + (state.live == 1 ? " storage is" : " storages are") +
             " still live at the end";
    });
  }
}

}  // namespace tensortap::format
