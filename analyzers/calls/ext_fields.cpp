#include "analyzers/calls/ext_fields.h"

#include <boost/json/parse.hpp>
#include <charconv>

namespace tensortap::analyzers {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void skip_space(std::string_view text, std::size_t& at) {
  while (at < text.size() && is_space(text[at])) ++at;
}

// `at` stands on the opening quote; afterwards behind the closing one.
std::string_view take_string(std::string_view text, std::size_t& at) {
  const std::size_t begin = ++at;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  const std::size_t end = at < text.size() ? at : text.size();
  at = end + 1;
  return text.substr(begin, end - begin);
}

// Any value, containers with all that is in them.
std::string_view take_value(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      take_string(text, at);
      if (depth == 0) break;
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_space(c))) break;
    if (c == '{' || c == '[') ++depth;
    ++at;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return begin < text.size() ? text.substr(begin, at - begin) : std::string_view();
}

}  // namespace

std::string_view ExtFields::raw(std::string_view key) const {
  std::size_t at = 0;
  skip_space(object_, at);
  if (at >= object_.size() || object_[at] != '{') return {};
  ++at;
  while (true) {
    skip_space(object_, at);
    if (at >= object_.size() || object_[at] != '"') return {};
    const std::string_view name = take_string(object_, at);
    skip_space(object_, at);
    if (at >= object_.size() || object_[at] != ':') return {};
    ++at;
    skip_space(object_, at);
    const std::string_view value = take_value(object_, at);
    if (name == key) return value;
    skip_space(object_, at);
    if (at >= object_.size() || object_[at] != ',') return {};
    ++at;
  }
}

std::optional<std::uint64_t> ExtFields::integer(std::string_view key) const {
  const std::string_view value = raw(key);
  std::uint64_t number = 0;
  const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || result.ec != std::errc() || result.ptr != value.data() + value.size())
    return std::nullopt;
  return number;
}

std::optional<std::string> ExtFields::text(std::string_view key) const {
  const std::string_view value = raw(key);
  if (value.size() < 2 || value.front() != '"') return std::nullopt;
  if (value.find('\\') == std::string_view::npos) return std::string(value.substr(1, value.size() - 2));
  boost::system::error_code error;
  const boost::json::value parsed =
      boost::json::parse(boost::json::string_view(value.data(), value.size()), error);
  if (error || !parsed.is_string()) return std::nullopt;
  return std::string(parsed.get_string().c_str(), parsed.get_string().size());
}

}  // namespace tensortap::analyzers
