// The gradients of all parameters of the modules that were called as roots in this capture, in the order and
// by the names of named_parameters(): a shared parameter once.
#pragma once

#include <cstdint>

namespace tensortap::probe {

// On a thread that runs Python, with or without the GIL (it is taken for the while); not inside a Callback.
// False: there is no Python, or this thread is none of its. Not noexcept: see python_current_optimizer.
bool python_note_gradients(std::uint64_t step);

}  // namespace tensortap::probe
