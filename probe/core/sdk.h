// The table of functions behind probe/sdk/tensortap.h, and what of it only a backend can know of torch.
//
// Thread rules: the table's functions are called by the job, on any thread, at any time; all are noexcept.
// Everything that costs (reductions) is done before the thread enters a Callback, so that no stop waits for
// it.
#pragma once

#include <cstdint>

#include "probe/core/values.h"
#include "probe/sdk/tensortap.h"

namespace tensortap::probe {

struct CaptureState;

// A tensor's elements, when they are plain dense host memory.
struct HostElements {
  const void* data = nullptr;
  std::uint64_t count = 0;
  std::uint8_t dtype = 0;  // c10::ScalarType
  bool in_order = false;   // of the indices, the last one running fastest; else dense in some other order
};

// Set by the backend. `impl` is a c10::TensorImpl that the caller keeps alive.
struct TensorAccess {
  // What may be read of it: dims point into it. False: it is none (undefined).
  bool (*facts)(CaptureState& capture, const void* impl, TensorFacts& facts) noexcept = nullptr;
  // False: the elements are somewhere else, or are not what they look like (a lazy conjugate, a subclass).
  bool (*elements)(const void* impl, HostElements& elements) noexcept = nullptr;
};

void set_tensor_access(const TensorAccess& access) noexcept;
const TensorAccess& tensor_access() noexcept;
const TensortapSdk* sdk_table() noexcept;

}  // namespace tensortap::probe
