#include "format/json_text.h"

#include <charconv>
#include <cstring>

namespace tensortap::format {
namespace {

// Which bytes go into a JSON string as they are: ASCII but control characters, `"` and `\`.
struct PlainBytes {
  bool plain[256] = {};
  constexpr PlainBytes() {
    for (int c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  }
};
constexpr PlainBytes kPlain;

// Are all eight bytes at `p` such? Each term has a byte's top bit set where the byte is not (a borrow may set
// more, never less): above ASCII, below 0x20, equal to `"` or to `\\`.
bool eight_plain(const unsigned char* p) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::uint64_t kTops = 0x8080808080808080u;
  std::uint64_t word = 0;
  std::memcpy(&word, p, sizeof word);
  const std::uint64_t quote = word ^ kOnes * '"';
  const std::uint64_t backslash = word ^ kOnes * '\\';
  return ((word | (word - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes)) & kTops) == 0;
}

// Length of the well-formed UTF-8 sequence of more than one byte at `p`, 0 when there is none (RFC 3629: no
// overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_sequence(const unsigned char* p, std::size_t available) {
  const unsigned char lead = p[0];
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || length > available || p[1] < low || p[1] > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (p[i] < 0x80 || p[i] > 0xBF) return 0;
  }
  return length;
}

void append_escaped(std::string& out, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

}  // namespace

std::uint64_t append_json_string(std::string& out, std::string_view text) {
  std::uint64_t replaced = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t done = 0;  // bytes before it are in `out`
  std::size_t at = 0;
  out += '"';
  while (at < text.size()) {
    if (at + 8 <= text.size() && eight_plain(bytes + at)) {
      at += 8;
      continue;
    }
    const unsigned char c = bytes[at];
    if (kPlain.plain[c]) {
      ++at;
      continue;
    }
    if (const std::size_t length = c < 0x80 ? 0 : utf8_sequence(bytes + at, text.size() - at)) {
      at += length;
      continue;
    }
    out.append(text.data() + done, at - done);
    if (c < 0x80) {
      append_escaped(out, c);
    } else {
      out += "\xEF\xBF\xBD";  // U+FFFD
      ++replaced;
    }
    done = ++at;
  }
  out.append(text.data() + done, at - done);
  out += '"';
  return replaced;
}

std::string well_formed_utf8(std::string_view text) {
  std::string out;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = bytes[at] < 0x80 ? 1 : utf8_sequence(bytes + at, text.size() - at);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
    } else {
      out.append(text.data() + at, length);
      at += length;
    }
  }
  return out;
}

void append_json_number(std::string& out, std::uint64_t value) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_json_number(std::string& out, std::int64_t value) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace tensortap::format
