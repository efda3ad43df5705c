#include "analyzers/candle/storage_charges.h"

#include <algorithm>

#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {
namespace {

// An op or a storage under (span, tensor) or (span, name).
struct Entry {
  std::uint32_t span = kNoId, key = kNoId;
  bool is_storage = false;
  std::uint64_t number = 0;  // of the op or storage
};
struct OpsFirst {
  bool operator()(const Entry& a, const Entry& b) const {
    if (a.span != b.span) return a.span < b.span;
    return a.key != b.key ? a.key < b.key : a.is_storage < b.is_storage;
  }
};
using Entries = format::Sorter<Entry, OpsFirst>;

struct ByOp {
  bool operator()(const StorageCharges::Charge& a, const StorageCharges::Charge& b) const {
    return a.op < b.op;
  }
};

// f(storage, ops under its key, one of them), for storages with at least one.
template <class Take>
void join(Entries& entries, Take take) {
  Entry group;
  std::uint8_t ops = 0;
  entries.for_each([&](const Entry& entry) {
    if (entry.span != group.span || entry.key != group.key) {
      group = entry;
      ops = 0;
    }
    if (!entry.is_storage) {
      group.number = entry.number;
      ops = std::min<std::uint8_t>(2, ops + 1);
    } else if (ops != 0) {
      take(entry.number, ops, group.number);
    }
  });
}

}  // namespace

StorageCharges::StorageCharges(const ActivationInputs& in) : in_(in) {
  collect();
  if (storages_.empty()) return;
  join_by_name();
  join_by_output();
  charge_all();
}

void StorageCharges::collect() {
  in_.logical.for_each_lifetime([&](std::uint64_t index, const Lifetime& life) {
    if (life.category != format::MemoryCategory::kActivation) return;
    if (in_.scope[life.span] != Scope::kMeasuredSubtree) return;
    Storage storage;
    storage.lifetime = index;
    storage.span = life.span;
    storage.op_name = life.op_name;
    storages_.push_back(storage);
    span_flags_.grow(in_.spans.size());
    span_flags_.edit(life.span) |= kHasStorage;
  });
}

void StorageCharges::join_by_name() {
  Entries entries;
  for (std::uint64_t i = 0; i < storages_.size(); ++i) {
    const Storage& storage = storages_[i];
    if (storage.op_name != kNoId) entries.add({storage.span, storage.op_name, true, i});
  }
  if (entries.size() == 0) return;
  for (std::uint64_t op = 0; op < in_.ops.size(); ++op) {
    const OpRow& row = in_.ops[op];
    if (has_storage(row.span)) entries.add({row.span, row.name, false, op});
  }
  join(entries, [&](std::uint64_t at, std::uint8_t ops, std::uint64_t op) {
    Storage& storage = storages_.edit(at);
    storage.names = ops;
    storage.by_name = op;
  });
}

void StorageCharges::join_by_output() {
  Entries entries;
  for (std::uint64_t i = 0; i < storages_.size(); ++i) {
    const Lifetime life = in_.logical.lifetime(storages_[i].lifetime);
    in_.logical.for_each_tensor(life, [&](std::uint32_t tensor) {
      entries.add({life.span, tensor, true, i});
    });
  }
  for (std::uint64_t op = 0; op < in_.ops.size(); ++op) {
    const OpRow& row = in_.ops[op];
    if (row.output != kNoId && has_storage(row.span)) entries.add({row.span, row.output, false, op});
  }
  // A storage may be found under several of its tensors.
  join(entries, [&](std::uint64_t at, std::uint8_t ops, std::uint64_t op) {
    Storage& storage = storages_.edit(at);
    storage.outputs = std::min<std::uint8_t>(2, storage.outputs + ops);
    storage.by_output = op;
  });
}

bool StorageCharges::find_op(const Storage& storage, const Lifetime& life, std::uint64_t& op) const {
  if (storage.outputs == 1 && (storage.names == 0 || in_.ops[storage.by_output].name == storage.op_name)) {
    op = storage.by_output;
    return true;
  }
  if (storage.names != 1) return false;
  op = storage.by_name;
  if (storage.outputs == 0) return true;
  const std::uint32_t output = in_.ops[op].output;
  bool is_among = false;
  in_.logical.for_each_tensor(life, [&](std::uint32_t tensor) { is_among |= tensor == output; });
  return is_among;
}

void StorageCharges::charge_all() {
  format::Sorter<Charge, ByOp> charges;
  for (std::uint64_t i = 0; i < storages_.size(); ++i) {
    const Storage storage = storages_[i];
    const Lifetime life = in_.logical.lifetime(storage.lifetime);
    Charge charge{0, life.start_ns, life.end_ns, life.bytes, life.open};
    if (find_op(storage, life, charge.op)) {
      charges.add(charge);
    } else {
      ++unattributed_;
      span_flags_.edit(storage.span) |= kMarked;
    }
  }
  charges.for_each([&](const Charge& charge) { charges_.push_back(charge); });
}

}  // namespace tensortap::analyzers::candle
