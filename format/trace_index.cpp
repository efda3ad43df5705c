#include "format/trace_index.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "format/frame_walk.h"

namespace tensortap::format {

Result<TraceIndex> TraceIndex::open(const std::string& path, bool walk) {
  TraceIndex index;
  index.path_ = path;
  struct stat status {};
  // Asked before it is opened: a pipe's writer must not see a reader that goes again.
  if (::stat(path.c_str(), &status) != 0) return io_error("open", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kMalformed, "not a regular file: it can only be read from its beginning", path};
  }
  index.fd_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!index.fd_) return io_error("open", path, errno);
  if (::fstat(index.fd_.get(), &status) != 0) return io_error("open", path, errno);
  index.file_bytes_ = static_cast<std::uint64_t>(status.st_size);

  Result<StoredMeta> meta = read_meta(index.fd_.get(), path);
  if (!meta) return meta.error();
  index.meta_line_ = std::move(meta->line);
  const std::uint64_t first = meta_frame_bytes(meta->content_bytes);
  int error_number = 0;
  auto table = read_seek_table(index.fd_.get(), first, meta->content_bytes, index.file_bytes_, error_number);
  if (table) {
    index.frames_ = std::move(table->table.entries);
    index.meta_is_damaged_ = table->table.meta_sum != meta_sum(index.meta_line_);
    index.has_seek_table_ = true;
    index.rest_ = index.file_bytes_;
  } else if (walk) {
    index.frames_ = walk_frames(index.fd_.get(), first, meta->content_bytes, index.file_bytes_, error_number);
    index.rest_ = index.frames_.empty() ? first : index.frames_.back().end();
  }
  if (error_number != 0) return io_error("read", path, error_number);
  return index;
}

Result<std::string_view> TraceIndex::read(const FrameEntry& frame, FrameCodec& codec) const {
  std::string compressed(frame.compressed_bytes, '\0');
  if (read_at(fd_.get(), compressed.data(), compressed.size(), frame.data()) < 0)
    return io_error("read", path_, errno);
  const std::optional<std::string_view> lines = codec.decode(frame, compressed);
  if (lines) return *lines;
  Error error{ErrorCode::kMalformed,
              "the frame at byte " + std::to_string(frame.offset) + " of the file is damaged; its " +
                  std::to_string(frame.lines) + " lines from line " + std::to_string(frame.first_line) +
                  " on are lost",
              path_};
  return error;
}

Status check_meta_line(const std::string& path) {
  const Result<TraceIndex> index = TraceIndex::open(path, false);
  if (!index || !index->meta_is_damaged()) return {};
  return damaged_meta_line(path);
}

Error damaged_meta_line(const std::string& path) {
  return {ErrorCode::kMalformed, "the meta line is damaged: it is not what the file's checksum says", path,
          1};
}

}  // namespace tensortap::format
