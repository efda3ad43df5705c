// What an offline analyzer must know of an attention mask, instead of its elements: whether it blocks
// anything, whether it blocks exactly what lies above the diagonal, whether it holds what no mask should.
//
//   MaskSummary found;
//   if (summarize_mask(data, 6 /* f32 */, {slices, rows, columns}, found)) …
//
// Bool: true blocks. Floating point: -inf blocks. Thread rules: pure functions. C++17.
#pragma once

#include <cstdint>

namespace tensortap::probe {

struct MaskSummary {
  bool has_nan_or_posinf = false;
  bool blocked_any = false;
  bool blocked_equals_strict_upper = false;  // of every slice: blocked where column > row, nowhere else
};

struct MaskShape {
  std::uint64_t slices, rows, columns;
};

// `data`: contiguous, a slice after another, a row after another. False: neither bool nor floating point.
bool summarize_mask(const void* data, std::uint8_t dtype, MaskShape shape, MaskSummary& out) noexcept;

}  // namespace tensortap::probe
