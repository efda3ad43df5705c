#include "format/text.h"

#include <cstddef>

#include "format/line_writer.h"

namespace tensortap::format {
namespace {

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Is this whole text one white-space character beyond ASCII? U+0085, U+00A0, U+1680, U+2000-200A, U+2028,
// U+2029, U+202F, U+205F, U+3000.
bool is_wide_space(std::string_view c) {
  if (c.size() == 2) return c == "\xC2\x85" || c == "\xC2\xA0";
  if (c.size() != 3) return false;
  if (c == "\xE1\x9A\x80" || c == "\xE2\x81\x9F" || c == "\xE3\x80\x80") return true;
  const auto last = static_cast<unsigned char>(c[2]);
  return c.substr(0, 2) == "\xE2\x80" &&
         ((last >= 0x80 && last <= 0x8A) || last == 0xA8 || last == 0xA9 || last == 0xAF);
}

}  // namespace

std::string_view trim(std::string_view text) {
  for (;;) {
    if (text.empty()) return text;
    if (is_ascii_space(text.front())) {
      text.remove_prefix(1);
    } else if (is_wide_space(text.substr(0, 2))) {
      text.remove_prefix(2);
    } else if (is_wide_space(text.substr(0, 3))) {
      text.remove_prefix(3);
    } else {
      break;
    }
  }
  for (;;) {
    if (is_ascii_space(text.back())) {
      text.remove_suffix(1);
    } else if (text.size() > 2 && is_wide_space(text.substr(text.size() - 2))) {
      text.remove_suffix(2);
    } else if (text.size() > 3 && is_wide_space(text.substr(text.size() - 3))) {
      text.remove_suffix(3);
    } else {
      return text;
    }
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 64;
  std::string out;
  append_json_string(out, text.substr(0, kShown));
  if (text.size() > kShown) out += "…";
  return out;
}

}  // namespace tensortap::format
