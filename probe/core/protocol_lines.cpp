#include "probe/core/protocol_lines.h"

#include "format/line_writer.h"

namespace tensortap::probe {

namespace {

// What stands behind `"name":`, to the line's end; "" when the name is not there.
std::string_view behind_name(std::string_view line, std::string_view name) noexcept {
  for (std::size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at != 0 && line[at - 1] == '"' && line.substr(end, 2) == "\":") return line.substr(end + 2);
  }
  return {};
}

// Takes the digits at the front; false when there are none.
bool take_number(std::string_view& text, std::uint64_t& number) noexcept {
  number = 0;
  std::size_t digits = 0;
  while (digits < text.size() && digits < 20 && text[digits] >= '0' && text[digits] <= '9') {
    number = number * 10 + static_cast<std::uint64_t>(text[digits++] - '0');
  }
  text.remove_prefix(digits);
  return digits != 0;
}

bool take(std::string_view& text, char wanted) noexcept {
  if (text.empty() || text[0] != wanted) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string_view text_member(std::string_view line, std::string_view name) noexcept {
  std::string_view rest = behind_name(line, name);
  if (!take(rest, '"')) return {};
  const std::size_t end = rest.find_first_of("\"\\");
  return end == std::string_view::npos || rest[end] == '\\' ? std::string_view() : rest.substr(0, end);
}

std::uint64_t number_member(std::string_view line, std::string_view name) noexcept {
  std::string_view rest = behind_name(line, name);
  std::uint64_t number = 0;
  take_number(rest, number);
  return number;
}

Cursors cursor_member(std::string_view line, std::string_view name) {
  Cursors cursors;
  std::string_view rest = behind_name(line, name);
  if (!take(rest, '[')) return cursors;
  while (take(rest, '[')) {
    std::uint64_t ring = 0, position = 0;
    if (!take_number(rest, ring) || !take(rest, ',') || !take_number(rest, position) || !take(rest, ']'))
      return {};
    cursors.push_back({static_cast<std::uint32_t>(ring), position, 0});
    take(rest, ',');
  }
  return cursors;
}

void append_batch_line(std::string& out, std::uint64_t seq, std::uint64_t lines, const Cursors& cursors) {
  out += "{\"kind\":\"batch\",\"seq\":";
  format::append_json_number(out, seq);
  out += ",\"lines\":";
  format::append_json_number(out, lines);
  out += ",\"cursors\":[";
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    out += i == 0 ? "[" : ",[";
    format::append_json_number(out, static_cast<std::uint64_t>(cursors[i].ring));
    out += ',';
    format::append_json_number(out, cursors[i].position);
    out += ',';
    format::append_json_number(out, cursors[i].records);
    out += ']';
  }
  out += "]}\n";
}

}  // namespace tensortap::probe
