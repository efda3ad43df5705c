// The frames of an open trace file, one after another, by their headers alone (internal to container.cpp and
// trace_index.cpp).
//
//   Result<StoredMeta> meta = read_meta(fd, path);
//   std::uint64_t at = meta_frame_bytes(meta->content_bytes);
//   while (auto frame = frame_at(fd, at, file_bytes, error_number)) at = frame->entry.end();
//
// Reads some hundred bytes of a frame. Thread rules: no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/container.h"
#include "format/frame.h"
#include "format/seek_table.h"

namespace tensortap::format {

struct StoredMeta {
  std::string line;
  std::size_t content_bytes = 0;
};

// The meta frame at the file's beginning. kTruncated: the file ends inside it; kMalformed: it begins with
// none.
Result<StoredMeta> read_meta(int fd, const std::string& path);

struct FramePlace {
  FrameEntry entry;  // raw_offset and first_line are the caller's to count
  std::vector<Cursor> cursors;
};

// The frame whose FrameInfo is at `offset`; nothing when there is no whole one. `error_number` is set if
// reading failed.
std::optional<FramePlace> frame_at(int fd, std::uint64_t offset, std::uint64_t file_bytes, int& error_number);

// All whole frames from `offset` on (the first frame of lines), counted on from `raw_offset` and line 2.
std::vector<FrameEntry> walk_frames(int fd, std::uint64_t offset, std::uint64_t raw_offset,
                                    std::uint64_t file_bytes, int& error_number);

// The seek table that ends the file, if an intact one does.
struct StoredTable {
  std::uint64_t offset = 0;
  SeekTable table;
};
std::optional<StoredTable> read_seek_table(int fd, std::uint64_t first_offset, std::uint64_t raw_offset,
                                           std::uint64_t file_bytes, int& error_number);

}  // namespace tensortap::format
