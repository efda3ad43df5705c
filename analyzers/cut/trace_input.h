// The text of a trace in blocks of whole lines, more than once if need be; of a trace file of ours only the
// frames that are asked for.
//
//   auto input = TraceInput::open("run.jsonl.zst");
//   input->walk(visitor);                               // wants(frame)? use(block), in the order of the file
//
// Any other input (plain text, other zstd streams, gzip, pipes) comes whole, as do lines behind the last
// whole frame of one of ours. A damaged frame is left out and reported; damage elsewhere ends the reading.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/byte_source.h"
#include "format/io.h"
#include "format/result.h"
#include "format/trace_index.h"

namespace tensortap::analyzers {

class BlockVisitor {
 public:
  virtual ~BlockVisitor() = default;
  // Asked before a frame is read, once for each, in order.
  virtual bool wants(const format::FrameEntry& frame, std::size_t number) = 0;
  // Whole lines (the input's last may lack its LF); `readable` bytes behind them may be read. False: no more.
  virtual bool use(std::string_view block, std::size_t readable) = 0;
};

// What went wrong in a walk; what is not said here was read.
struct WalkReport {
  std::vector<format::Error> errors;  // in the order of the file
  bool truncated = false;             // the input ends inside a frame or member
  std::size_t frames_read = 0;
};

class TraceInput {
 public:
  // "-" is standard input. `twice`: it will be walked more than once; what cannot be (a pipe) is copied to a
  // temporary file, which is gone with this object.
  static format::Result<TraceInput> open(const std::string& path, bool twice);

  WalkReport walk(BlockVisitor& visitor) const;
  const std::string& name() const { return name_; }  // for messages
  const format::TraceIndex* index() const { return index_ ? &*index_ : nullptr; }

 private:
  void walk_frames(BlockVisitor& visitor, WalkReport& report) const;
  void walk_stream(format::Result<format::ByteSource> source, BlockVisitor& visitor,
                   WalkReport& report) const;
  format::Error named(format::Error error) const;

  std::string name_;
  std::string path_;
  format::FileDescriptor copy_;
  std::optional<format::TraceIndex> index_;
};

}  // namespace tensortap::analyzers
