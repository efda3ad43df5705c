// Reads trace/10 lines and calls a typed visitor (simdjson does the parsing).
//
// `LineReader` handles single lines, as a daemon gets them from a socket; `TraceReader` (trace_reader.h)
// feeds it a whole file. Grammar: specification §1.4 and §2 - missing required fields, wrong types, unknown
// enum values and kinds, repeated known fields are refused; unknown fields are skipped. Rules between lines
// (order, cardinality: §1.2) are not checked here but by stream_rules.h. An error's `name` is one of
// malformed_json, invalid_utf8, unknown_kind, missing_field, repeated_field, wrong_type, unknown_value,
// number_out_of_range, nesting_too_deep.
//
// Thread rules: one reader per thread. Not for the job's process (links simdjson).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "format/event.h"
#include "format/result.h"

namespace tensortap::format {

// So many bytes behind the text of `read_lines` must be readable; what they hold does not matter.
inline constexpr std::size_t kReadableBehind = 64;

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  // Parses one line (without or with its LF) and calls the visitor's function for its kind.
  // `place` is handed on, and put into the error (line, byte offset).
  Status read(std::string_view line, const Place& place, EventVisitor& visitor);

  // Does the same with many lines, several times as fast: each with its LF, but for the last of a text. Blank
  // lines are skipped, bad ones are told to `on_bad_line`. `place` is that of the first line, and afterwards
  // that of the line behind the text. kReadableBehind bytes behind the text must be readable. Returns how
  // many lines were good.
  using BadLine = std::function<void(const Error&)>;
  std::uint64_t read_lines(std::string_view lines, Place& place, EventVisitor& visitor,
                           const BadLine& on_bad_line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The path to the disk needs no more than this: the record's kind, without a walk over all values.
// "" when the line is no JSON object or its `kind` is no string. The text borrows from the reader's buffer.
class KindReader {
 public:
  KindReader();
  ~KindReader();
  KindReader(KindReader&&) noexcept;
  KindReader& operator=(KindReader&&) noexcept;
  std::string_view kind(std::string_view line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::format
