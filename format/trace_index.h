// Reads a trace file of ours (container.h) frame by frame, in any order: what lies where, without
// decompressing.
//
//   auto index = TraceIndex::open(path);
//   FrameCodec codec;
//   for (const FrameEntry& frame : index->frames())
//     if (wanted(frame.range)) use(*index->read(frame, codec));
//
// From the seek table at the file's end if there is one; else (the run goes on, or crashed) by hopping from
// FrameInfo to FrameInfo. Either way the same frames. What stands behind the last whole frame (a torn one, or
// frames of others) is at `rest()`, for ByteSource::open_zstd.
//
// Thread rules: after open() all functions are const and may be called from any thread, each with a
// FrameCodec of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/frame.h"
#include "format/io.h"
#include "format/result.h"
#include "format/seek_table.h"

namespace tensortap::format {

class TraceIndex {
 public:
  // kMalformed, kTruncated: the file does not begin as a trace file of ours; it may be read as a stream.
  static Result<TraceIndex> open(const std::string& path) { return open(path, true); }

  const std::string& meta_line() const { return meta_line_; }  // with its LF, without its padding
  const std::vector<FrameEntry>& frames() const { return frames_; }
  bool meta_is_damaged() const { return meta_is_damaged_; }  // by the seek table; known only if there is one
  bool has_seek_table() const { return has_seek_table_; }

  // Bytes from rest() to file_bytes() belong to no whole frame. The size is that of the moment of open().
  std::uint64_t rest() const { return rest_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

  // The lines of one frame; borrows from the codec until its next call. kMalformed: it is damaged (the
  // message says which lines of the trace are lost).
  Result<std::string_view> read(const FrameEntry& frame, FrameCodec& codec) const;

 private:
  friend Status check_meta_line(const std::string& path);
  // Without walking, the frames are known only of a file that has its seek table.
  static Result<TraceIndex> open(const std::string& path, bool walk);

  std::string path_;
  FileDescriptor fd_;
  std::string meta_line_;
  std::vector<FrameEntry> frames_;
  bool has_seek_table_ = false;
  bool meta_is_damaged_ = false;
  std::uint64_t rest_ = 0;
  std::uint64_t file_bytes_ = 0;
};

// kMalformed: `path` is a finished trace file of ours, and its meta line is not what the seek table says (the
// meta frame itself has no checksum). Anything else, a pipe too, is left alone. Reads the meta frame and the
// table only.
Status check_meta_line(const std::string& path);

// What a damaged meta line is told as.
Error damaged_meta_line(const std::string& path);

}  // namespace tensortap::format
