// The activation profile (trace/10 specification §5.6): operations of the measured region whose output is an
// activation, by the category of its tensor record or of the storage that was charged to them.
//
//   ActivationInputs in{tables, spans, ops, scope, tensors, logical, timing};
//   ActivationProfile profile(in, logical_memory_is_complete);
//   profile.listed();                                   // → capability `activations`
//   const ActivationStates states = profile.states(capabilities);
//   profile.for_each([&](const ActivationOp& op) { … });      // in stream order of the op records
//
// A trace in which no activation is seen costs one look at the lifetimes. Memory: bounded. Thread rules: one
// thread at a time, reading too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzers/candle/activation_inputs.h"
#include "analyzers/candle/capabilities.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

// Bytes × nanoseconds: two 64-bit figures may be at their largest.
__extension__ typedef unsigned __int128 ByteNanoseconds;

// One listed operation. Bytes and nanoseconds.
struct ActivationOp {
  std::uint64_t op = 0;         // of the OpLog
  ByteNanoseconds byte_ns = 0;  // sum of bytes × time live inside the measured span; saturates at 2^128-1
  std::uint64_t allocated_bytes = 0, storage_count = 0, live_ns = 0, retained_bytes = 0;
  bool knows_storage = false;                  // allocated_bytes and storage_count are known
  bool knows_times = false;                    // byte_ns, live_ns and retained_bytes too
  bool by_tensor = false, by_storage = false;  // how it was recognised
  bool dedicated = false;  // its span is of kind op and has no other op record: the span stands for it
  bool has_device_rows = false;
};

struct ActivationStates {
  CapabilityState coverage, host_time, device_time, dense_output, logical_memory, physical_memory_attribution;
};

class ActivationProfile {
 public:
  // `logical_is_complete`: the contract declares logical memory complete, so that an operation without
  // charged storage allocated 0 bytes.
  ActivationProfile(const ActivationInputs& in, bool logical_is_complete);

  std::uint64_t listed() const { return listed_.size(); }
  std::uint64_t unattributed_storages() const { return unattributed_; }
  ActivationStates states(const Capabilities& capabilities) const;

  // f(const ActivationOp&).
  template <class Take>
  void for_each(Take take) const {
    for (std::uint64_t i = 0; i < listed_.size(); ++i) take(ActivationOp(listed_[i]));
  }
  // The span's id for a dedicated operation, else "<span>/op/<index>".
  std::string id(const ActivationOp& op) const;

  // The greatest of all, of equal ones the smallest id; nothing without a candidate.
  std::optional<ActivationOp> longest() const { return longest_; }  // by the op's own host duration
  std::optional<ActivationOp> largest() const { return largest_; }  // by known dense output

 private:
  void list(const class StorageCharges& charges, bool logical_is_complete);
  void add(const ActivationOp& op, const OpRow& row);

  ActivationInputs in_;
  format::PagedArray<ActivationOp> listed_{std::size_t{4} << 20};
  std::uint64_t unattributed_ = 0;
  std::optional<ActivationOp> longest_, largest_;
  bool lacks_dense_ = false, lacks_storage_ = false;
  std::uint64_t on_devices_ = 0, on_devices_timed_ = 0;  // listed operations on a device other than the host
};

}  // namespace tensortap::analyzers::candle
