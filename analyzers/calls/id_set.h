// A set of ids that needs little memory when ids are numbered: `s1.1`, `s1.2`, … are one interval of the
// prefix `s1.`.
//
// Used to know every span id of a stream after the span itself was let go. Ids without a number at their end
// take an entry each. Thread rules: plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tensortap::analyzers {

// Lets string maps be asked with a string_view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

class IdSet {
 public:
  // False when it is already there.
  bool insert(std::string_view id);
  bool contains(std::string_view id) const;
  std::uint64_t size() const { return size_; }

 private:
  using Intervals = std::map<std::uint64_t, std::uint64_t>;  // first → last, both included
  std::unordered_map<std::string, Intervals, TextHash, std::equal_to<>> by_prefix_;
  std::uint64_t size_ = 0;
};

}  // namespace tensortap::analyzers
