// What always-on counts say, as trace-ctl status shows them.
//
// Thread rules: pure.
#pragma once

#include <string>
#include <string_view>

namespace tensortap::probe {

// `counts`: the JSON of a `counts` line (proto/session.md). A table of the operators that took most time,
// with a newline; says how much was looked at. "" when it is no such JSON.
std::string always_on_table(std::string_view counts);

}  // namespace tensortap::probe
