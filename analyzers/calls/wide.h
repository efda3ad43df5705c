// Sums that must not wrap: kept in 128 bits, told as 2^64-1 when they are more (trace/10 specification §0.3:
// every sum saturates).
#pragma once

#include <cstdint>

namespace tensortap::analyzers {

__extension__ typedef unsigned __int128 Wide;

inline std::uint64_t saturated(Wide sum) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  return sum > kMost ? kMost : static_cast<std::uint64_t>(sum);
}

}  // namespace tensortap::analyzers
