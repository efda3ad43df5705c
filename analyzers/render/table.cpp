#include "analyzers/render/table.h"

#include <algorithm>

namespace tensortap::analyzers {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastName = 16;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The byte at which code point number `index` begins.
std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (at < text.size() && index > 0) {
    ++at;
    while (at < text.size() && continues(text[at])) ++at;
    --index;
  }
  return at;
}

std::string spaces(std::size_t count) { return std::string(count, ' '); }

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return !continues(c); }));
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto after = [&](std::size_t n) {
      return i + n < text.size() ? static_cast<unsigned char>(text[i + n]) : 0u;
    };
    const bool c1 = c == 0xC2 && after(1) >= 0x80 && after(1) < 0xA0;
    // U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069: they turn the direction of what follows.
    const bool turns = c == 0xE2 && ((after(1) == 0x80 && (after(2) == 0x8E || after(2) == 0x8F ||
                                                           (after(2) >= 0xAA && after(2) <= 0xAE))) ||
                                     (after(1) == 0x81 && after(2) >= 0xA6 && after(2) <= 0xA9));
    if (c < 0x20 || c == 0x7F || c1 || turns) {
      out += "\uFFFD";
      i += c1 ? 1 : turns ? 2 : 0;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string cut_middle(std::string_view text, std::size_t width) {
  const std::size_t length = display_width(text);
  if (length <= width || width < 3) return std::string(text);
  const std::size_t tail =
      (width - 1) / 2;  // an operator's or path's end tells it apart, its beginning says whose it is
  const std::size_t head = width - 1 - tail;
  return std::string(text.substr(0, byte_of(text, head))) + "…" +
         std::string(text.substr(byte_of(text, length - tail)));
}

std::string Table::render(std::size_t width, const Style& style) const {
  std::vector<std::size_t> widths(headers_.size(), 0);
  for (std::size_t column = 0; column < headers_.size(); ++column) {
    for (const auto& row : rows_) {
      if (column < row.size()) widths[column] = std::max(widths[column], display_width(row[column]));
    }
    if (widths[column] != 0) widths[column] = std::max(widths[column], display_width(headers_[column]));
  }
  std::size_t others = kIndent.size();
  for (std::size_t column = 1; column < widths.size(); ++column)
    others += widths[column] ? widths[column] + kGap : 0;
  widths[0] = std::min(widths[0], std::max(kLeastName, width > others ? width - others : 0));

  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(kIndent);
    const std::string name = cut_middle(cells[0], widths[0]);
    out += name + spaces(widths[0] - std::min(widths[0], display_width(name)));
    for (std::size_t column = 1; column < widths.size(); ++column) {
      if (widths[column] == 0) continue;
      const std::string_view cell = column < cells.size() ? std::string_view(cells[column]) : "";
      out += spaces(kGap + widths[column] - display_width(cell));
      out += cell;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out = style.dim(line(headers_)) + '\n';
  for (const auto& row : rows_) out += line(row) + '\n';
  return out;
}

}  // namespace tensortap::analyzers
