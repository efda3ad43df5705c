// The name of an iteration's span: `step-000000000042`, twelve digits (the number of the iteration, from 0).
//
//   step_number("step-000000000042")   // 42
//
// Thread rules: no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tensortap::format {

inline std::optional<std::uint64_t> step_number(std::string_view span_name) {
  constexpr std::string_view kPrefix = "step-";
  constexpr std::size_t kDigits = 12;
  if (span_name.substr(0, kPrefix.size()) != kPrefix || span_name.size() != kPrefix.size() + kDigits)
    return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : span_name.substr(kPrefix.size())) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

}  // namespace tensortap::format
