// Reading small JSON documents (hello, batch, ctl, run.json) without exceptions: a member of the wrong type
// is as absent. Lines of a trace never come here; they are simdjson's (format/line_reader.h).
//
//   auto hello = parse_object(line);
//   if (!hello) …;
//   std::string run = string_field(*hello, "run");
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensortap::collector {

std::optional<boost::json::object> parse_object(std::string_view text);

std::optional<std::uint64_t> as_unsigned(const boost::json::value& value);

std::string string_field(const boost::json::object& object, std::string_view key);  // "" when absent
std::optional<std::uint64_t> unsigned_field(const boost::json::object& object, std::string_view key);
std::optional<std::int64_t> signed_field(const boost::json::object& object, std::string_view key);
bool bool_field(const boost::json::object& object, std::string_view key);
std::vector<std::string> strings_field(const boost::json::object& object, std::string_view key);
const boost::json::object* find_object(const boost::json::object& object, std::string_view key);

}  // namespace tensortap::collector
