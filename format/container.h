// The trace file `trace.jsonl.zst`: independent zstd frames that end at line borders.
//
//   offset 0                      64 KiB + header          ...                    at the end of the run
//   ┌─────────────────────────┐┌───────────┬───────────┐┌───────────┬───────────┐┌────────────┐
//   │ meta frame              ││ skippable │ zstd frame││ skippable │ zstd frame││ skippable  │
//   │ one raw block: the meta ││ FrameInfo │ of lines  ││ FrameInfo │ of lines  ││ seek table │
//   │ line, blanks, LF: 64 KiB││           │ +checksum ││           │ +checksum ││            │
//   └─────────────────────────┘└───────────┴───────────┘└───────────┴───────────┘└────────────┘
//
// Any zstd tool reads it as one .jsonl (skippable frames are ignored, the blanks before the meta line's LF
// are white space). The meta frame is stored uncompressed and padded, so that it can be rewritten in place
// when the final coverage is known; a meta line longer than that: new meta frame and old frames go into a
// temporary file that is renamed. A FrameInfo carries the producer's ring cursors, raw and compressed size,
// line count and a checksum of itself; it and its zstd frame are appended by ONE write(2), so a crash leaves
// at most one bad frame, the last, which `open_for_append` cuts off.
//
// FrameInfo payload (little endian): u32 magic "TTF1", u32 payload bytes, u64 raw bytes, u64 compressed
// bytes, u64 line count, u32 cursor count, u32 bytes of more, cursor count × {u32 ring, u32 low half of the
// number of records, u64 position}, more, u64 XXH64 of all payload bytes before it. Skippable frame magic:
// 0x184D2A50 + 4. More: nothing (files of the first version), or the frame's FrameRange (frame.h) in 40
// bytes: u64 first and last host time of its lines, u64 first and last number of an iteration that begins in
// it, u64 kinds of records; what a later version appends is passed over. So a file that ends anywhere is
// indexed by hopping over FrameInfos; the seek table (seek_table.h) is all of them in one place, and
// TraceIndex (trace_index.h) reads either.
//
// Thread rules: one writer per file. Not for the job's process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/io.h"
#include "format/result.h"

namespace tensortap::format {

// How far a producer's ring is stored: every record before `position` (monotone byte count) is in the file,
// `records` of them; 0 = the producer did not say how many.
struct Cursor {
  std::uint32_t ring = 0;
  std::uint64_t position = 0;
  std::uint64_t records = 0;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

class TraceFileWriter {
 public:
  // Creates the file (fails if it exists) and writes the meta frame. `meta_line` ends with LF.
  static Result<TraceFileWriter> create(const std::string& path, std::string_view meta_line);
  // The same with an empty file that the caller has made, open for reading and writing, at `path`.
  static Result<TraceFileWriter> create(FileDescriptor file, const std::string& path,
                                        std::string_view meta_line);

  // Opens a file that a crash may have left: a bad tail is cut off. `cursors` become those of the last good
  // frame (merged over all frames: the greatest position of each ring, with its number of records); `lines`
  // counts the whole lines that are kept.
  struct Kept {
    std::vector<Cursor> cursors;
    std::uint64_t lines = 0;      // with the meta line
    std::uint64_t cut_bytes = 0;  // of a bad tail, compressed
    std::string meta_line;
    bool has_terminal = false;  // the last line's kind is `terminal`
  };
  static Result<std::pair<TraceFileWriter, Kept>> open_for_append(const std::string& path);

  TraceFileWriter(TraceFileWriter&&) noexcept;
  TraceFileWriter& operator=(TraceFileWriter&&) noexcept;
  ~TraceFileWriter();  // closes; writes nothing

  // Appends one frame in one write. `lines` is whole lines; empty lines with new cursors are allowed.
  Status append(std::string_view lines, const std::vector<Cursor>& cursors);

  // Rewrites the meta line (in place, or through a temporary file when it outgrew its frame).
  Status rewrite_meta(std::string_view meta_line);

  // Writes the seek table behind the last frame. Optional, and no farewell: the next append or rewrite_meta
  // cuts it off again, and so does open_for_append.
  Status finish();

  Status sync();  // fdatasync

  std::uint64_t stored_bytes() const;  // without the seek table
  std::uint64_t raw_bytes() const;

 private:
  struct Impl;
  explicit TraceFileWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::format
