// The footprint of a dense tensor (trace/10 specification §2.7): product of the shape × bytes per element.
//
//   dense_bytes({2, 3}, " BF16 ") == 12;
//   dense_bytes({2, 3}, "q4k") == std::nullopt;      // unknown is not 0
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tensortap::analyzers::candle {

// Bytes; saturates at 2^64-1; the empty shape is one element. Nothing: the dtype's size is not known.
std::optional<std::uint64_t> dense_bytes(std::span<const std::uint64_t> shape, std::string_view dtype);

}  // namespace tensortap::analyzers::candle
