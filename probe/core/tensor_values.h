// Reductions over the elements of a tensor in host memory, in plain C++: no operator of torch's runs for
// them, so a trace does not see its own measuring.
//
//   Reductions found;
//   if (reduce_values(data, 6 /* f32 */, 1024, found)) …
//
// Sums are made in double, in blocks, with the blocks' rounding carried along: about a nanosecond an element,
// on the thread that calls. Thread rules: pure functions. C++17.
#pragma once

#include <cstdint>

namespace tensortap::probe {

struct Reductions {
  std::uint64_t non_finite = 0;  // elements that are NaN or infinite; then the others are not finite either
  double rms = 0;
  double abs_max = 0;
  double mean = 0;
  double norm = 0;  // the root of the sum of squares
};

// `data`: `count` contiguous elements. False: a dtype (c10::ScalarType) whose elements are no plain numbers.
bool reduce_values(const void* data, std::uint8_t dtype, std::uint64_t count, Reductions& out) noexcept;

}  // namespace tensortap::probe
