// Writes the records of evidence into a thread's ring: tensors by name, their statistics, gradients.
//
//   if (Callback callback; callback) write_gradient(callback.capture(), callback.state(), {…}, "sdk");
//
// `source` says who asked (ext.source). False: nothing was written, because a text is blank, a shape has more
// than 2^64 elements, or the ring is full (counted). Texts are cut after kMaxEvidenceText bytes. Thread
// rules: inside a Callback, on the thread of `state`. No allocation.
#pragma once

#include <cstdint>
#include <string_view>

#include "format/ring_record.h"
#include "probe/core/capture.h"
#include "probe/core/capture_state.h"
#include "probe/core/mask_summary.h"
#include "probe/core/tensor_values.h"
#include "probe/core/values.h"

namespace tensortap::probe {

inline constexpr std::size_t kMaxEvidenceText = 4096;
inline constexpr std::uint32_t kMaxEvidenceDims = 64;

// A label for a tensor. `tensor.dims` must be there, unless its flags say kTensorNoSizes. `module`: the
// number of the module object that it is a parameter or buffer of, 0 for none.
// `facts`: of that module (format/module_nodes.h), for one that is not being called.
bool write_tensor(CaptureState& capture, ThreadState& state, std::string_view label,
                  const TensorFacts& tensor, format::CategoryCode category, std::string_view source,
                  std::uint64_t module = 0, FactBytes facts = {}) noexcept;

// `tensor`: shape, dtype, device; id 0 when it is nobody's tensor. `mask`: of an attention mask, null of
// anything else.
bool write_tensor_stats(CaptureState& capture, ThreadState& state, std::string_view label,
                        const TensorFacts& tensor, const Reductions& values, std::string_view source,
                        const MaskSummary* mask = nullptr) noexcept;

// The state of a gradient that is there, by its norm.
format::GradientCode gradient_state(double norm) noexcept;

bool write_gradient(CaptureState& capture, ThreadState& state, std::string_view root, std::string_view key,
                    format::GradientCode gradient, double norm, std::string_view source) noexcept;

}  // namespace tensortap::probe
