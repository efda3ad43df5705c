// The one renderer of byte counts, durations and counts for people. Machines get plain numbers in base units.
//
//   duration_text(1240000)   "1.24 ms"      bytes_text(3250586)   "3.10 MiB"
//   count_text(12345)        "12 345"       share_text(1, 3)      "33.3%"
//
// Three significant digits, rounded half up; below 1 µs and 1 KiB exact. Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace tensortap::analyzers {

std::string duration_text(
    std::uint64_t nanoseconds);               // ns, µs, ms, s; from 2 minutes on "3 min 05 s", "2 h 03 min"
std::string bytes_text(std::uint64_t bytes);  // B, KiB, MiB, GiB, TiB, PiB, EiB
std::string count_text(std::uint64_t count);  // thousands apart
std::string share_text(std::uint64_t part, std::uint64_t whole);  // "" when the whole is 0

}  // namespace tensortap::analyzers
