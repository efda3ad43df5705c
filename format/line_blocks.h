// The text of a ByteSource in blocks of whole lines, in bounded memory.
//
//   LineBlocks blocks(std::move(*source));
//   std::string_view block;
//   while (blocks.next(block)) use(block);              // ends with LF; the last one may not
//   if (blocks.error() || blocks.truncated()) …;
//
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "format/byte_source.h"

namespace tensortap::format {

class LineBlocks {
 public:
  // A block is as long as one read of the source fills, and longer only for a line that is.
  // `most_line_bytes`: a longer line is an error (kMalformed).
  explicit LineBlocks(ByteSource source, std::size_t block_bytes = 1024 * 1024,
                      std::size_t most_line_bytes = 256 * 1024 * 1024);

  // The next block; false at the end. Valid until the next call. `readable_behind()` bytes behind it may be
  // read.
  bool next(std::string_view& block);
  std::size_t readable_behind() const;

  const std::optional<Error>& error() const { return error_; }  // after the end
  bool truncated() const { return source_.truncated(); }        // after the end: inside a frame or member
  const std::string& name() const { return source_.name(); }

 private:
  ByteSource source_;
  std::size_t most_line_bytes_;
  std::string text_;  // [0, block_) was handed out, [block_, end_) not yet
  std::size_t block_ = 0, end_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
};

}  // namespace tensortap::format
