// Reads single members of a record's `ext` object (proto/ext.md) without parsing the rest of it: an
// operator's `ext` holds its arguments, and most analyzers want only its thread.
//
//   ExtFields ext(op.ext);
//   std::uint64_t thread = ext.integer("thread").value_or(0);
//
// The text comes from a reader that has checked its JSON; on text that is none, members are merely not found.
// Ownership: borrows the text. Thread rules: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensortap::analyzers {

class ExtFields {
 public:
  explicit ExtFields(std::string_view object) : object_(object) {}

  // The JSON text of a member's value; "" when there is none.
  std::string_view raw(std::string_view key) const;
  std::optional<std::uint64_t> integer(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  bool is_true(std::string_view key) const { return raw(key) == "true"; }

 private:
  std::string_view object_;
};

}  // namespace tensortap::analyzers
