// An operator's arguments or outputs as a record's values (layout: format/ring_record.h).
//
// Thread rules: inside a Callback, on the thread of `state`. Nothing of the values is kept.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>

#include "probe/core/capture_state.h"

namespace tensortap::probe {

struct EncodedValues {
  std::uint32_t bytes = 0;
  std::uint16_t count = 0;
  bool cut = false;  // something was left out
};

// Writes at most `room` bytes to `to`.
EncodedValues encode_values(CaptureState& capture, ThreadState& state, unsigned char* to, std::uint32_t room,
                            const c10::IValue* items, std::size_t count) noexcept;

}  // namespace tensortap::probe
