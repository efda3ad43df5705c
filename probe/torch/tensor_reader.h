// What probe/core and probe/python ask of torch: facts of a tensor by its TensorImpl, and a thread's modes.
#pragma once

namespace tensortap::probe {

// Fills in the hooks of tensor_reader.h and capture_state.h. Once, before the capture.
void tensor_reader_install() noexcept;

}  // namespace tensortap::probe
