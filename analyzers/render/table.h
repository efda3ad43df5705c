// Text columns: the first one is a name and takes the room that is left, cut in its middle; the others are
// right-aligned.
//
//   Table table({"operator", "calls", "self"});
//   table.add({"aten::add", "12", "1.24 ms"});
//   out += table.render(width, style);
//
// Names come from jobs: control characters, which could steer the terminal, become U+FFFD. Thread rules:
// plain values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tensortap::analyzers {

// Colours, or nothing where there are none.
struct Style {
  bool colour = false;
  std::string bold(std::string_view text) const { return paint("\x1b[1m", text); }
  std::string dim(std::string_view text) const { return paint("\x1b[2m", text); }
  std::string good(std::string_view text) const { return paint("\x1b[32m", text); }
  std::string bad(std::string_view text) const { return paint("\x1b[31m", text); }
  std::string warn(std::string_view text) const { return paint("\x1b[33m", text); }

 private:
  std::string paint(std::string_view code, std::string_view text) const {
    return colour ? std::string(code) + std::string(text) + "\x1b[0m" : std::string(text);
  }
};

std::size_t display_width(std::string_view utf8);                  // code points
std::string printable(std::string_view text);                      // without what steers a terminal
std::string cut_middle(std::string_view text, std::size_t width);  // "aten::convolut…overrideable"

class Table {
 public:
  explicit Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // A column without any text in its rows is left out.
  std::string render(std::size_t width, const Style& style) const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tensortap::analyzers
