// Which operation each activation storage is charged to (trace/10 specification §5.6, "Attribution").
//
//   StorageCharges charges(inputs);
//   charges.unattributed();                       // storages that name no single op
//   StorageCharges::Cursor cursor(charges);
//   cursor.take(op, [&](const StorageCharges::Charge& charge) { … });   // ascending ops
//
// Of the ops of the storage's allocation span, O are those that put out one of its tensors, N those of its
// op name. One op in O that N does not contradict has it, else one in N that O does not contradict.
// Both are found by sorting ops and storages by (span, tensor) and (span, name).
// Memory: bounded. Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>

#include "analyzers/candle/activation_inputs.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

class StorageCharges {
 public:
  struct Charge {
    std::uint64_t op = 0;  // of the OpLog
    std::uint64_t start_ns = 0, end_ns = 0, bytes = 0;
    bool open = false;
  };

  explicit StorageCharges(const ActivationInputs& in);

  std::uint64_t unattributed() const { return unattributed_; }
  std::uint64_t size() const { return charges_.size(); }
  // One of the span's storages is unattributed.
  bool is_marked(std::uint32_t span) const {
    return span < span_flags_.size() && (span_flags_[span] & kMarked) != 0;
  }

  // Goes through the charges by op, once.
  class Cursor {
   public:
    explicit Cursor(const StorageCharges& charges) : charges_(charges.charges_) {}
    template <class Take>
    void take(std::uint64_t op, Take take) {
      for (; at_ < charges_.size() && charges_[at_].op == op; ++at_) take(charges_[at_]);
    }

   private:
    const format::PagedArray<Charge>& charges_;
    std::uint64_t at_ = 0;
  };

 private:
  static constexpr std::uint8_t kHasStorage = 1, kMarked = 2;

  // A storage, and what was found for it. Counts stop at 2: "more than one".
  struct Storage {
    std::uint64_t lifetime = 0;                // index in document order
    std::uint64_t by_output = 0, by_name = 0;  // the last op found
    std::uint32_t span = kNoId;
    NameId op_name = kNoId;
    std::uint8_t outputs = 0, names = 0;
  };

  void collect();
  void join_by_name();
  void join_by_output();
  void charge_all();
  // The op, or nothing.
  bool find_op(const Storage& storage, const Lifetime& life, std::uint64_t& op) const;
  bool has_storage(std::uint32_t span) const { return (span_flags_[span] & kHasStorage) != 0; }

  const ActivationInputs& in_;
  format::PagedArray<Storage> storages_;
  format::PagedArray<std::uint8_t> span_flags_{std::size_t{2} << 20};
  format::PagedArray<Charge> charges_;
  std::uint64_t unattributed_ = 0;
};

}  // namespace tensortap::analyzers::candle
