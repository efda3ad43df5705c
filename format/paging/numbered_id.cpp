#include "format/paging/numbered_id.h"

#include <bit>

namespace tensortap::format {
namespace {

constexpr std::size_t kMaxDigits = 18;  // fits 64 bits without a thought

// The last eight bytes of `id`, the last the most significant; before its beginning zeros. Of at least four.
std::uint64_t last_eight(std::string_view id) {
  const char* end = id.data() + id.size();
  if (id.size() >= 8) return load<std::uint64_t>(end - 8);
  return load<std::uint32_t>(end - 4) << 32 | load<std::uint32_t>(id.data()) << (8 * (8 - id.size()));
}

// How many of the eight bytes, counted from the most significant, are digits.
std::size_t digits_at_end(std::uint64_t bytes) {
  const std::uint64_t digits = bytes ^ 0x3030303030303030u;  // 0 to 9 where a digit is
  const std::uint64_t others = ((digits + 0x7676767676767676u) | digits) & 0x8080808080808080u;
  return static_cast<std::size_t>(std::countl_zero(others)) / 8;
}

// The number that the `count` most significant bytes spell: pairs of digits, then pairs of pairs.
std::uint64_t number_of(std::uint64_t bytes, std::size_t count) {
  std::uint64_t digits = (bytes ^ 0x3030303030303030u) & ~std::uint64_t{0} << (8 * (8 - count));
  digits = digits * 10 + (digits >> 8);
  constexpr std::uint64_t kPairs = 0x000000FF000000FFu;
  return ((digits & kPairs) * (100 + (1000000ull << 32)) +
          ((digits >> 16) & kPairs) * (1 + (10000ull << 32))) >>
         32;
}

}  // namespace

NumberedId split_id(std::string_view id) {
  NumberedId parts;
  std::size_t begin = id.size();
  std::size_t count = 8;  // as if there were more digits
  if (id.size() >= 4) {
    const std::uint64_t bytes = last_eight(id);
    count = digits_at_end(bytes);
    if (count - 1 < 7) {
      begin -= count;
      parts.number = number_of(bytes, count);
    }
  }
  if (count == 8) {
    const std::size_t first = id.size() > kMaxDigits ? id.size() - kMaxDigits : 0;
    for (std::uint64_t scale = 1; begin > first; --begin, scale *= 10) {
      const unsigned digit = static_cast<unsigned char>(id[begin - 1]) - unsigned{'0'};
      if (digit > 9) break;
      parts.number += digit * scale;
    }
  }
  while (begin < id.size() && id[begin] == '0') ++begin;
  parts.prefix = id.substr(0, begin);
  return parts;
}

}  // namespace tensortap::format
