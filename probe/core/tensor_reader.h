// Tensors of which only the address of the TensorImpl is known (Python's, parameters of C++ modules): what
// may be read of them, by the backend's help. `impl` must be alive during the call and as long as the facts
// are used. C++17; knows no torch.
#pragma once

#include <string_view>

#include "probe/core/values.h"

namespace tensortap::probe {

struct CaptureState;

// Set by the backend.
extern bool (*g_tensor_facts)(CaptureState& capture, const void* impl, TensorFacts& facts) noexcept;
// Set by the backend: would reading an attribute of a tensor run a mode of the job's (torch.overrides) on
// this thread?
extern bool (*g_function_mode_active)() noexcept;

// False: nothing is being captured, or the backend can't.
bool read_tensor(const void* impl, TensorFacts& facts) noexcept;

}  // namespace tensortap::probe
