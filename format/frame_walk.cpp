#include "format/frame_walk.h"

#include <cerrno>

#include "format/io.h"

namespace tensortap::format {
namespace {

Error malformed(const std::string& path, std::string message) {
  Error error;
  error.code = ErrorCode::kMalformed;
  error.message = std::move(message);
  error.file = path;
  return error;
}

// `bytes` of the file at `offset`; false when they are not all there, with `error_number` if reading failed.
bool read_all_at(int fd, std::string& to, std::size_t bytes, std::uint64_t offset, int& error_number) {
  to.resize(bytes);
  const ssize_t got = read_at(fd, to.data(), bytes, offset);
  if (got < 0) error_number = errno;
  return got == static_cast<ssize_t>(bytes);
}

}  // namespace

Result<StoredMeta> read_meta(int fd, const std::string& path) {
  std::string bytes(kMetaHeaderBytes, '\0');
  ssize_t got = read_at(fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return io_error("read", path, errno);
  bytes.resize(static_cast<std::size_t>(got));

  Error truncated =
      malformed(path, "the file ends inside its first frame, the meta line; nothing in it can be kept");
  truncated.code = ErrorCode::kTruncated;
  if (bytes.size() < kMetaHeaderBytes) return truncated;
  const std::optional<std::size_t> content = parse_meta_header(bytes);
  if (!content) return malformed(path, "not a trace file of tensortap: it begins with no meta frame");

  std::string frame(meta_frame_bytes(*content), '\0');
  got = read_at(fd, frame.data(), frame.size(), 0);
  if (got < 0) return io_error("read", path, errno);
  if (static_cast<std::size_t>(got) < frame.size()) return truncated;
  std::optional<std::string> line = decode_meta_frame(frame, *content);
  if (!line) return malformed(path, "the meta frame, the file's first, is damaged");
  return StoredMeta{std::move(*line), *content};
}

std::optional<FramePlace> frame_at(int fd, std::uint64_t offset, std::uint64_t file_bytes,
                                   int& error_number) {
  if (offset + kSkippableHeaderBytes > file_bytes) return std::nullopt;
  std::string bytes;
  if (!read_all_at(fd, bytes, kSkippableHeaderBytes, offset, error_number)) return std::nullopt;
  const std::optional<std::size_t> payload = parse_skippable_header(bytes);
  if (!payload || *payload > file_bytes - offset - kSkippableHeaderBytes) return std::nullopt;
  if (!read_all_at(fd, bytes, *payload, offset + kSkippableHeaderBytes, error_number)) return std::nullopt;
  std::optional<FrameInfo> info = decode_frame_info(bytes);
  FramePlace place;
  place.entry.offset = offset;
  place.entry.info_bytes = kSkippableHeaderBytes + *payload;
  if (!info || info->compressed_bytes > file_bytes - place.entry.data()) return std::nullopt;
  static_cast<FrameSize&>(place.entry) = *info;
  place.entry.range = info->range;
  place.cursors = std::move(info->cursors);
  return place;
}

std::vector<FrameEntry> walk_frames(int fd, std::uint64_t offset, std::uint64_t raw_offset,
                                    std::uint64_t file_bytes, int& error_number) {
  std::vector<FrameEntry> entries;
  std::uint64_t line = 2;
  while (std::optional<FramePlace> place = frame_at(fd, offset, file_bytes, error_number)) {
    FrameEntry& entry = place->entry;
    entry.raw_offset = raw_offset;
    entry.first_line = line;
    offset = entry.end();
    raw_offset += entry.raw_bytes;
    line += entry.lines;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<StoredTable> read_seek_table(int fd, std::uint64_t first_offset, std::uint64_t raw_offset,
                                           std::uint64_t file_bytes, int& error_number) {
  if (file_bytes < first_offset + kSkippableHeaderBytes + kSeekTableTrailerBytes) return std::nullopt;
  std::string bytes;
  if (!read_all_at(fd, bytes, kSeekTableTrailerBytes, file_bytes - kSeekTableTrailerBytes, error_number))
    return std::nullopt;
  const std::optional<std::uint64_t> payload = parse_seek_table_trailer(bytes);
  if (!payload || *payload + kSkippableHeaderBytes > file_bytes - first_offset) return std::nullopt;
  StoredTable stored;
  stored.offset = file_bytes - kSkippableHeaderBytes - *payload;
  if (!read_all_at(fd, bytes, kSkippableHeaderBytes + *payload, stored.offset, error_number))
    return std::nullopt;
  auto table = decode_seek_table(bytes, first_offset, raw_offset, stored.offset);
  if (!table) return std::nullopt;
  stored.table = std::move(*table);
  return stored;
}

}  // namespace tensortap::format
