// Writes records as trace/10 lines: compact JSON, fields in the specification's order, one LF each.
//
// Every function appends one whole line, LF included, to `out`, whose capacity is reused: no allocation per
// line once it has grown. Texts are always written as valid JSON and UTF-8; bytes that are not UTF-8 become
// U+FFFD and are counted. Floats are the shortest text that reads back to the same number, but for those that
// the candle-graph crate would misread (json_text.h). A record's `ext` (raw JSON text of an object) is
// written last, as `"ext":…`; "" writes nothing.
//
//   std::string out;
//   LineWriter writer(out);
//   writer.write(format::SpanEnd{"s1.4", 1200, ""});
//
// Thread rules: one writer per thread. C++17: it runs inside the job too (no simdjson, no fmt).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "format/event.h"
#include "format/json_text.h"  // the one way to append JSON parts

namespace tensortap::format {

class LineWriter {
 public:
  explicit LineWriter(std::string& out) : out_(out) {}

  void write(const Meta& event);
  void write(const SpanStart& event);
  void write(const SpanEnd& event);
  void write(const Op& event);
  void write(const Tensor& event);
  void write(const TensorStats& event);
  void write(const Memory& event);
  void write(const DeviceMemory& event);
  void write(const DeviceInterval& event);
  void write(const Gradient& event);
  void write(const Edge& event);
  void write(const Terminal& event);

  // Bytes that were not UTF-8 and became U+FFFD, since construction.
  std::uint64_t replaced_bytes() const { return replaced_bytes_; }

 private:
  std::string& out_;
  std::uint64_t replaced_bytes_ = 0;
};

}  // namespace tensortap::format
