// Reads and writes the few protocol lines that a probe needs (proto/session.md) without a JSON library: a
// probe brings the job none. The daemon writes compact JSON; what does not look like it yields nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "probe/core/drain.h"

namespace tensortap::probe {

// `"name":"text"`; "" when there is none. Texts with escapes are not understood (no protocol word has one).
std::string_view text_member(std::string_view line, std::string_view name) noexcept;
// `"name":123`; 0 when there is none.
std::uint64_t number_member(std::string_view line, std::string_view name) noexcept;
// `"name":[[ring,position],…]`; the numbers of records are not in it.
Cursors cursor_member(std::string_view line, std::string_view name);

// `lines`: how many lines of records were sent since the last batch line.
void append_batch_line(std::string& out, std::uint64_t seq, std::uint64_t lines, const Cursors& cursors);

}  // namespace tensortap::probe
