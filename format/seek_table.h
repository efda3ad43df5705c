// The seek table: the last frame of a trace file that was finished. A skippable frame, so zstd tools see
// nothing.
//
// Payload (little endian): u32 magic "TTSK", u32 version 1, u64 frame count, u32 bytes of an entry (80; what
// a later version appends is passed over), u32 zero, u64 XXH64 of the meta line (whose own frame has no
// checksum, so that it can be rewritten in place), entries, u64 XXH64 of all payload bytes before it, u32
// payload bytes, u32 magic "TTSE". The last eight bytes let a reader find it from the file's end. Skippable
// frame magic: 0x184D2A50 + 5. An entry, all u64: offset of the FrameInfo in the file, its bytes with header,
// compressed bytes, raw bytes, lines, then the FrameRange (first and last host time, first and last step,
// kinds; bit 62 of kinds: there is none).
//
//   std::string bytes = encode_seek_table({entries, meta_sum(meta_line)});  // goes behind the last frame
//   auto table = decode_seek_table(bytes, …);                               // believes nothing
//
// Thread rules: no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/frame.h"

namespace tensortap::format {

// Where a frame of lines lies, and what is in it.
struct FrameEntry : FrameSize {
  std::uint64_t offset = 0;      // of its FrameInfo, in the file
  std::uint64_t info_bytes = 0;  // of the FrameInfo with its header; the compressed lines come behind it
  std::uint64_t raw_offset = 0;  // of its first line, in the uncompressed stream
  std::uint64_t first_line = 0;  // 1-based
  std::optional<FrameRange> range;

  std::uint64_t data() const { return offset + info_bytes; }
  std::uint64_t end() const { return data() + compressed_bytes; }
  friend bool operator==(const FrameEntry& a, const FrameEntry& b);
};

struct SeekTable {
  std::vector<FrameEntry> entries;
  std::uint64_t meta_sum = 0;
};

// Of a meta line with its LF, without its padding.
std::uint64_t meta_sum(std::string_view meta_line);

inline constexpr std::size_t kSeekTableTrailerBytes = 8;

// The whole skippable frame; "" when the table would not fit one (more than 53 million frames).
std::string encode_seek_table(const SeekTable& table);

// The payload bytes that a file's last kSeekTableTrailerBytes bytes declare; nothing when they end no table.
std::optional<std::uint64_t> parse_seek_table_trailer(std::string_view bytes);

// The table in a skippable frame (header and payload); nothing when it is no intact table. Offsets and
// sizes are those of a file whose first frame of lines begins at `first_offset`, each behind the one before,
// the table behind the last; raw_offset and first_line are counted on from `raw_offset` and line 2.
std::optional<SeekTable> decode_seek_table(std::string_view frame, std::uint64_t first_offset,
                                           std::uint64_t raw_offset, std::uint64_t table_offset);

}  // namespace tensortap::format
