// Parts of JSON, appended to a text: the one way to do it, for records and for `ext` texts built elsewhere.
//
//   std::string out = "{\"name\":";
//   replaced += append_json_string(out, name);     // "aten::mm", with the quotes
//   append_json_number(out += ",\"ns\":", ns);
//
// Thread rules: pure functions. C++17, standard library only: used inside the job too. Nothing allocates once
// `out` has the room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensortap::format {

// With the quotes. Always valid JSON and UTF-8: each byte that belongs to no UTF-8 sequence becomes U+FFFD.
// Returns how many bytes were replaced.
std::uint64_t append_json_string(std::string& out, std::string_view text);

// The text, each byte that belongs to no UTF-8 sequence replaced by U+FFFD: for names of files.
std::string well_formed_utf8(std::string_view text);

void append_json_number(std::string& out, std::uint64_t value);
void append_json_number(std::string& out, std::int64_t value);

// The shortest text that reads back to the same number (specification §1.4, "Float text on output": `1.0`,
// `0.00001`, `1e-6`, `1e+16`). Not finite: null.
void append_json_number(std::string& out, double value);

// The same for the floats of trace/10's own fields (`rms`, `abs_max`, `mean`, `norm`): where the candle-graph
// crate, which does not round correctly, would take the shortest text for a neighbour of the number, the text
// has other or more digits, from which it and every correct reader get the number itself (§1.4, [advice]).
// One number in five hundred has no such text, and is written shortest.
void append_json_float_field(std::string& out, double value);

}  // namespace tensortap::format
