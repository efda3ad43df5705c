// What a RecordFunction's name pointer meant when this thread last saw it.
//
// Names of operators are owned by their schemas, those of ranges are not: a pointer comes again with another
// text. So the text is compared each time, in words of eight bytes.
//
// Thread rules: one cache per thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/ring_record.h"

namespace tensortap::probe {

inline constexpr std::uint32_t kNameCacheEntries = 1024;

struct NameCacheEntry {
  static constexpr std::uint32_t kWords = 6;

  const char* pointer = nullptr;
  format::StrRef name = format::kStrNone;
  format::StrRef overload = format::kStrNone;
  std::uint16_t arguments = 0;
  std::uint8_t returns = 0;
  bool is_operator = false;
  std::uint8_t words = 0;  // of the text with its zero; 0: too long, or not aligned
  std::uint64_t last_mask = 0;
  std::uint64_t text[kWords] = {};

  void remember(const char* from) noexcept {
    pointer = from;
    const std::size_t bytes = std::strlen(from) + 1;
    words = 0;
    if (bytes > sizeof text || (reinterpret_cast<std::uintptr_t>(from) & 7) != 0) return;
    words = static_cast<std::uint8_t>((bytes + 7) / 8);
    std::memset(text, 0, sizeof text);
    std::memcpy(text, from, bytes);
    last_mask = bytes % 8 == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << (bytes % 8 * 8)) - 1;
  }
  // Is the text at `pointer` still that one? Not for texts that are not kept here (`words` is 0). Reads whole
  // aligned words: up to seven bytes behind the text's end, never into another page.
  bool is_same() const noexcept {
    std::uint64_t word;
    const std::uint32_t last = words - 1u;
    for (std::uint32_t i = 0; i < last; ++i) {
      std::memcpy(&word, pointer + 8 * i, 8);
      if (word != text[i]) return false;
    }
    std::memcpy(&word, pointer + 8 * last, 8);
    return ((word ^ text[last]) & last_mask) == 0;
  }
};

inline std::uint32_t name_cache_home(const char* name) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(name);
  return static_cast<std::uint32_t>((bits >> 3) ^ (bits >> 13)) & (kNameCacheEntries - 2);
}

}  // namespace tensortap::probe
