#include "format/seek_table.h"

#include <xxhash.h>

#include <limits>

#include "format/little_endian.h"

namespace tensortap::format {
namespace {

constexpr std::uint32_t kSkippableMagic = 0x184D2A50u + 5;
constexpr std::uint32_t kTableMagic = 0x4B535454u;    // "TTSK"
constexpr std::uint32_t kTrailerMagic = 0x45535454u;  // "TTSE"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFixedBytes = 32;
constexpr std::size_t kEntryBytes = 80;
constexpr std::size_t kMostEntryBytes = 4096;
constexpr std::size_t kSumBytes = 8;
constexpr std::uint64_t kNoRange = std::uint64_t{1} << 62;

void put_entry(std::string& out, const FrameEntry& entry) {
  for (const std::uint64_t value :
       {entry.offset, entry.info_bytes, entry.compressed_bytes, entry.raw_bytes, entry.lines}) {
    put(out, value);
  }
  FrameRange none;
  none.kinds = kNoRange;
  put_range(out, entry.range.value_or(none));
}

FrameEntry take_entry(const char* from) {
  FrameEntry entry;
  for (std::uint64_t* value :
       {&entry.offset, &entry.info_bytes, &entry.compressed_bytes, &entry.raw_bytes, &entry.lines}) {
    *value = take<std::uint64_t>(from);
    from += sizeof *value;
  }
  const FrameRange range = take_range(from);
  if ((range.kinds & kNoRange) == 0) entry.range = range;
  return entry;
}

// Whether it may stand at `offset` with `room` bytes of the file from there on.
bool plausible(const FrameEntry& entry, std::uint64_t offset, std::uint64_t room) {
  return entry.offset == offset && entry.info_bytes >= kSkippableHeaderBytes &&
         entry.info_bytes <= kSkippableHeaderBytes + kFrameInfoMaxBytes && entry.info_bytes <= room &&
         entry.compressed_bytes <= room - entry.info_bytes && entry.raw_bytes <= kFrameMaxRawBytes &&
         entry.lines <= entry.raw_bytes;
}

}  // namespace

bool operator==(const FrameEntry& a, const FrameEntry& b) {
  return a.offset == b.offset && a.info_bytes == b.info_bytes && a.compressed_bytes == b.compressed_bytes &&
         a.raw_bytes == b.raw_bytes && a.lines == b.lines && a.raw_offset == b.raw_offset &&
         a.first_line == b.first_line && a.range == b.range;
}

std::uint64_t meta_sum(std::string_view meta_line) { return XXH64(meta_line.data(), meta_line.size(), 0); }

std::string encode_seek_table(const SeekTable& table) {
  const std::uint64_t payload =
      kFixedBytes + std::uint64_t{table.entries.size()} * kEntryBytes + kSumBytes + kSeekTableTrailerBytes;
  if (payload > std::numeric_limits<std::uint32_t>::max()) return "";
  std::string frame;
  frame.reserve(kSkippableHeaderBytes + payload);
  put(frame, kSkippableMagic);
  put(frame, static_cast<std::uint32_t>(payload));
  put(frame, kTableMagic);
  put(frame, kVersion);
  put(frame, static_cast<std::uint64_t>(table.entries.size()));
  put(frame, static_cast<std::uint32_t>(kEntryBytes));
  put(frame, std::uint32_t{0});
  put(frame, table.meta_sum);
  for (const FrameEntry& entry : table.entries) put_entry(frame, entry);
  put(frame, static_cast<std::uint64_t>(
                 XXH64(frame.data() + kSkippableHeaderBytes, frame.size() - kSkippableHeaderBytes, 0)));
  put(frame, static_cast<std::uint32_t>(payload));
  put(frame, kTrailerMagic);
  return frame;
}

std::optional<std::uint64_t> parse_seek_table_trailer(std::string_view bytes) {
  if (bytes.size() < kSeekTableTrailerBytes) return std::nullopt;
  const char* p = bytes.data() + bytes.size() - kSeekTableTrailerBytes;
  if (take<std::uint32_t>(p + 4) != kTrailerMagic) return std::nullopt;
  const std::uint64_t payload = take<std::uint32_t>(p);
  if (payload < kFixedBytes + kSumBytes + kSeekTableTrailerBytes) return std::nullopt;
  return payload;
}

std::optional<SeekTable> decode_seek_table(std::string_view frame, std::uint64_t first_offset,
                                           std::uint64_t raw_offset, std::uint64_t table_offset) {
  const auto declared = parse_seek_table_trailer(frame);
  if (!declared || frame.size() != kSkippableHeaderBytes + *declared) return std::nullopt;
  if (take<std::uint32_t>(frame.data()) != kSkippableMagic ||
      take<std::uint32_t>(frame.data() + 4) != *declared) {
    return std::nullopt;
  }
  const std::string_view payload = frame.substr(kSkippableHeaderBytes);
  const std::size_t summed = payload.size() - kSumBytes - kSeekTableTrailerBytes;
  const char* p = payload.data();
  if (XXH64(p, summed, 0) != take<std::uint64_t>(p + summed)) return std::nullopt;
  if (take<std::uint32_t>(p) != kTableMagic || take<std::uint32_t>(p + 4) != kVersion) return std::nullopt;
  const std::uint64_t count = take<std::uint64_t>(p + 8);
  const std::size_t entry_bytes = take<std::uint32_t>(p + 16);
  if (entry_bytes < kEntryBytes || entry_bytes > kMostEntryBytes) return std::nullopt;
  const std::size_t room = summed - kFixedBytes;
  if (room % entry_bytes != 0 || count != room / entry_bytes) return std::nullopt;

  SeekTable table;
  table.meta_sum = take<std::uint64_t>(p + 24);
  table.entries.reserve(count);
  std::uint64_t offset = first_offset, line = 2;
  for (std::uint64_t i = 0; i < count; ++i) {
    FrameEntry entry = take_entry(p + kFixedBytes + i * entry_bytes);
    if (!plausible(entry, offset, table_offset - offset)) return std::nullopt;
    entry.raw_offset = raw_offset;
    entry.first_line = line;
    offset = entry.end();
    raw_offset += entry.raw_bytes;
    line += entry.lines;
    table.entries.push_back(entry);
  }
  if (offset != table_offset) return std::nullopt;
  return table;
}

}  // namespace tensortap::format
