// Ids that end in a number, `s0.17` or `t42`, taken apart: tables of ids need little memory for those.
//
//   const auto [prefix, number] = split_id("s1.42");   // "s1.", 42
//
// Thread rules: a pure function.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace tensortap::format {

// An unsigned integer from bytes that need not be aligned.
template <class Word>
std::uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

struct NumberedId {
  std::string_view prefix;  // of the id it was taken from
  std::uint64_t number = 0;
};

// A number with leading zeros stays part of the prefix, and so do digits before the last 18: different ids
// never become one. Number 0 means that there is none.
NumberedId split_id(std::string_view id);

}  // namespace tensortap::format
