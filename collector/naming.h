// Names of runs: the identity that a producer claims, and the folder that the daemon makes of it.
//
//   is_run_identity("71-8812-5f2c")                                       → true
//   display_name("/usr/bin/python3.11", {"python3", "-u", "train.py"})    → "train.py"
//   folder_name(now, "train.py", 71, 0x5f2c)                              →
//   "20260301-123456-train.py-71-00005f2c"
//
// Nothing else that a producer says becomes part of a path. Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace tensortap::collector {

// Letters, digits, '-', 1 to 120 bytes.
bool is_run_identity(std::string_view text);

// The executable's base name, for an interpreter the script's (of `-m package.module`: the module), reduced
// to [A-Za-z0-9._-], never beginning with a dot, at most 40 bytes; "job" when nothing is left.
std::string display_name(std::string_view exe, const std::vector<std::string>& command);

std::string folder_name(std::time_t when, std::string_view name, std::int64_t pid, std::uint32_t random);

std::uint32_t random_u32();

}  // namespace tensortap::collector
