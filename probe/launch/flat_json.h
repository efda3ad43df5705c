// Reads the members of one flat JSON object, as the collector answers them to control clients
// (proto/session.md).
//
// trace-run is a part of the probe and links no JSON library. Strings are unescaped; numbers, `true`, `false`
// and `null` are kept as they stand; nested objects and arrays are kept as raw text.
//
// Thread rules: pure.
//
//   auto members = parse_flat_object(R"({"kind":"run","pid":71})");
//   if (members) use(member(*members, "pid"));   // "71"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensortap::probe {

using FlatObject = std::vector<std::pair<std::string, std::string>>;

// nullopt when the text is not exactly one JSON object.
std::optional<FlatObject> parse_flat_object(std::string_view text);

// The objects of an array that a member holds as raw text; what is no object is left out.
std::vector<FlatObject> parse_objects(std::string_view array);

// The member's value, "" when it is absent or null.
std::string_view member(const FlatObject& object, std::string_view key);

// A JSON string with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace tensortap::probe
