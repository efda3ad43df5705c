#include "format/container.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "format/frame.h"
#include "format/frame_walk.h"
#include "format/io.h"
#include "format/line_reader.h"

namespace tensortap::format {
namespace {

constexpr mode_t kFileMode = 0640;  // a trace tells the job's command line: not for everyone
constexpr std::size_t kCopyBytes = 1024 * 1024;

Status check_meta_line(std::string_view line) {
  if (line.size() < 2 || line.back() != '\n' || line.find('\n') != line.size() - 1) {
    return Error{ErrorCode::kInvalidArgument, "a meta line is one line that ends with LF"};
  }
  if (line.front() != '{') return Error{ErrorCode::kInvalidArgument, "a meta line begins with {"};
  if (meta_content_bytes(line.size()) == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "the meta line has " + std::to_string(line.size()) + " bytes; at most 64 MiB fit"};
  }
  return {};
}

// A frame holds the low half of a ring's number of records, which only grows.
std::uint64_t whole_number(std::uint64_t before, std::uint64_t low_half) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 32;
  const std::uint64_t number = before / kHalf * kHalf + low_half;
  return number < before ? number + kHalf : number;
}

// Keeps the greatest position of each ring, in order of first appearance.
void merge_cursors(std::vector<Cursor>& into, const std::vector<Cursor>& from) {
  for (const Cursor& cursor : from) {
    const auto known =
        std::find_if(into.begin(), into.end(), [&](const Cursor& c) { return c.ring == cursor.ring; });
    if (known == into.end()) {
      into.push_back(cursor);
    } else if (cursor.position > known->position) {
      known->position = cursor.position;
      if (cursor.records != 0) known->records = whole_number(known->records, cursor.records);
    }
  }
}

// What a scan of a file finds: its meta line and its whole frames, of which the last one is known to be good.
struct Scan {
  StoredMeta meta;
  std::vector<Cursor> cursors;
  std::uint64_t lines = 1;
  std::uint64_t raw_bytes = 0;
  std::uint64_t end = 0;
  std::string last_line;
  bool is_finished = false;  // an intact seek table stands at `end`, and ends the file
};

// FrameInfos of all frames (cursors are in no seek table), then the content of the last ones: a frame is only
// decompressed to be trusted as the tail.
Result<Scan> scan_file(int fd, const std::string& path, std::uint64_t file_bytes, FrameCodec& codec) {
  Result<StoredMeta> meta = read_meta(fd, path);
  if (!meta) return meta.error();
  Scan scan;
  scan.meta = std::move(*meta);
  scan.end = meta_frame_bytes(scan.meta.content_bytes);
  scan.raw_bytes = scan.meta.content_bytes;
  scan.last_line = scan.meta.line;

  std::vector<FramePlace> frames;
  int error_number = 0;
  while (std::optional<FramePlace> frame =
             frame_at(fd, frames.empty() ? scan.end : frames.back().entry.end(), file_bytes, error_number)) {
    frames.push_back(std::move(*frame));
  }
  if (error_number != 0) return io_error("read", path, error_number);

  // From the back: bad frames go; then on to the last frame that has lines, for the stream's last line.
  bool tail_is_good = false;
  std::string compressed;
  for (std::size_t i = frames.size(); i-- > 0;) {
    const FrameEntry& frame = frames[i].entry;
    if (tail_is_good && frame.lines == 0) continue;
    compressed.resize(frame.compressed_bytes);
    if (read_at(fd, compressed.data(), compressed.size(), frame.data()) < 0)
      return io_error("read", path, errno);
    const std::optional<std::string_view> lines = codec.decode(frame, compressed);
    if (!tail_is_good) {
      if (!lines) {
        frames.pop_back();
        continue;
      }
      tail_is_good = true;
    }
    if (!lines) break;  // damage in the middle: not a crash's tail; left for readers to report
    if (lines->empty()) continue;
    scan.last_line = lines->substr(lines->rfind('\n', lines->size() - 2) + 1);
    break;
  }

  for (const FramePlace& frame : frames) {
    merge_cursors(scan.cursors, frame.cursors);
    scan.lines += frame.entry.lines;
    scan.raw_bytes += frame.entry.raw_bytes;
    scan.end = frame.entry.end();
  }
  const std::uint64_t first = meta_frame_bytes(scan.meta.content_bytes);
  const auto table = read_seek_table(fd, first, scan.meta.content_bytes, file_bytes, error_number);
  scan.is_finished = table && table->offset == scan.end;
  return scan;
}

// Appends bytes [from, to) of one file at `offset` of another.
bool copy_range(int from_fd, std::uint64_t from, std::uint64_t to, int to_fd, std::uint64_t offset) {
  std::string buffer(kCopyBytes, '\0');
  while (from < to) {
    const ssize_t got =
        read_at(from_fd, buffer.data(), std::min<std::uint64_t>(buffer.size(), to - from), from);
    if (got < 0) return false;
    if (got == 0) {
      errno = EIO;
      return false;
    }
    if (!write_at(to_fd, std::string_view(buffer).substr(0, static_cast<std::size_t>(got)), offset))
      return false;
    from += static_cast<std::uint64_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

}  // namespace

struct TraceFileWriter::Impl {
  std::string path;
  FileDescriptor fd;
  StoredMeta meta;
  std::uint64_t end = 0;  // where the next frame goes
  std::uint64_t raw_bytes = 0;
  bool is_finished = false;  // a seek table stands at `end`
  FrameCodec codec;

  Status reopen_end();
  Status rewrite_in_place(std::string_view meta_line);
  Status rewrite_through_copy(std::string_view meta_line);
};

TraceFileWriter::TraceFileWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceFileWriter::TraceFileWriter(TraceFileWriter&&) noexcept = default;
TraceFileWriter& TraceFileWriter::operator=(TraceFileWriter&&) noexcept = default;
TraceFileWriter::~TraceFileWriter() = default;

Result<TraceFileWriter> TraceFileWriter::create(const std::string& path, std::string_view meta_line) {
  if (Status good = check_meta_line(meta_line); !good) return good.error();  // before there is a file
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  if (!file) return io_error("create", path, errno);
  return create(std::move(file), path, meta_line);
}

Result<TraceFileWriter> TraceFileWriter::create(FileDescriptor file, const std::string& path,
                                                std::string_view meta_line) {
  if (!file) return io_error("open", path, EBADF);
  if (Status good = check_meta_line(meta_line); !good) return good.error();
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->fd = std::move(file);
  impl->meta = {std::string(meta_line), meta_content_bytes(meta_line.size())};
  const std::string frame = encode_meta_frame(meta_line, impl->meta.content_bytes);
  if (!write_at(impl->fd.get(), frame, 0)) {
    const Error error = io_error("write", path, errno);
    ::unlink(path.c_str());
    return error;
  }
  impl->end = frame.size();
  impl->raw_bytes = impl->meta.content_bytes;
  return TraceFileWriter(std::move(impl));
}

Result<std::pair<TraceFileWriter, TraceFileWriter::Kept>> TraceFileWriter::open_for_append(
    const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->fd = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!impl->fd) return io_error("open", path, errno);
  struct stat status {};
  if (::fstat(impl->fd.get(), &status) != 0) return io_error("open", path, errno);
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);

  Result<Scan> scan = scan_file(impl->fd.get(), path, file_bytes, impl->codec);
  if (!scan) return scan.error();
  if (file_bytes > scan->end && ::ftruncate(impl->fd.get(), static_cast<off_t>(scan->end)) != 0) {
    return io_error("cut the bad tail off", path, errno);
  }

  Kept kept;
  kept.cursors = std::move(scan->cursors);
  kept.lines = scan->lines;
  kept.cut_bytes = scan->is_finished ? 0 : file_bytes - scan->end;
  kept.meta_line = scan->meta.line;
  kept.has_terminal = KindReader().kind(scan->last_line) == "terminal";
  impl->meta = std::move(scan->meta);
  impl->end = scan->end;
  impl->raw_bytes = scan->raw_bytes;
  return std::pair<TraceFileWriter, Kept>(TraceFileWriter(std::move(impl)), std::move(kept));
}

Status TraceFileWriter::append(std::string_view lines, const std::vector<Cursor>& cursors) {
  if (!lines.empty() && lines.back() != '\n') {
    return Error{ErrorCode::kInvalidArgument, "lines to append must end with LF"};
  }
  Result<std::string_view> frame = impl_->codec.encode(lines, cursors);
  if (!frame) return frame.error();
  if (Status open = impl_->reopen_end(); !open) return open;
  if (!write_at(impl_->fd.get(), *frame, impl_->end)) {
    const Error error = io_error("append to", impl_->path, errno);
    // The part that got there must not stand before a later frame.
    if (::ftruncate(impl_->fd.get(), static_cast<off_t>(impl_->end)) != 0) {
      return io_error("cut a half-written frame off", impl_->path, errno);
    }
    return error;
  }
  impl_->end += frame->size();
  impl_->raw_bytes += lines.size();
  return {};
}

// A seek table that was written goes before anything changes: what it says would not be true any more.
Status TraceFileWriter::Impl::reopen_end() {
  if (!is_finished) return {};
  if (::ftruncate(fd.get(), static_cast<off_t>(end)) != 0) return io_error("append to", path, errno);
  is_finished = false;
  return {};
}

Status TraceFileWriter::finish() {
  Impl& file = *impl_;
  if (Status open = file.reopen_end(); !open) return open;
  int error_number = 0;
  const std::vector<FrameEntry> frames = walk_frames(file.fd.get(), meta_frame_bytes(file.meta.content_bytes),
                                                     file.meta.content_bytes, file.end, error_number);
  if (error_number != 0) return io_error("read", file.path, error_number);
  const std::uint64_t walked =
      frames.empty() ? meta_frame_bytes(file.meta.content_bytes) : frames.back().end();
  if (walked != file.end) {
    return Error{ErrorCode::kMalformed,
                 "no seek table is written: there is no frame at byte " + std::to_string(walked), file.path};
  }
  const std::string table = encode_seek_table({frames, meta_sum(file.meta.line)});
  if (!table.empty() && !write_at(file.fd.get(), table, file.end)) {
    const Error error = io_error("write the seek table of", file.path, errno);
    if (::ftruncate(file.fd.get(), static_cast<off_t>(file.end)) != 0) {
      return io_error("cut a half-written seek table off", file.path, errno);
    }
    return error;
  }
  file.is_finished = !table.empty();
  return {};
}

Status TraceFileWriter::rewrite_meta(std::string_view meta_line) {
  if (Status good = check_meta_line(meta_line); !good) return good;
  if (Status open = impl_->reopen_end(); !open) return open;
  return meta_line.size() <= impl_->meta.content_bytes ? impl_->rewrite_in_place(meta_line)
                                                       : impl_->rewrite_through_copy(meta_line);
}

// Writes from the first to the last byte that changes: mostly within one page, which a crash does not tear.
Status TraceFileWriter::Impl::rewrite_in_place(std::string_view meta_line) {
  const std::string before = encode_meta_frame(meta.line, meta.content_bytes);
  const std::string after = encode_meta_frame(meta_line, meta.content_bytes);
  std::size_t first = 0, last = after.size();
  while (first < last && before[first] == after[first]) ++first;
  while (last > first && before[last - 1] == after[last - 1]) --last;
  if (!write_at(fd.get(), std::string_view(after).substr(first, last - first), first)) {
    return io_error("rewrite the meta line of", path, errno);
  }
  meta.line = meta_line;
  return {};
}

Status TraceFileWriter::Impl::rewrite_through_copy(std::string_view meta_line) {
  const std::string copy_path = path + ".rewrite";
  FileDescriptor copy(::open(copy_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode));
  if (!copy) return io_error("create", copy_path, errno);

  StoredMeta new_meta{std::string(meta_line), meta_content_bytes(meta_line.size())};
  const std::string frame = encode_meta_frame(meta_line, new_meta.content_bytes);
  const std::uint64_t old_frame_bytes = meta_frame_bytes(meta.content_bytes);
  if (!write_at(copy.get(), frame, 0) ||
      !copy_range(fd.get(), old_frame_bytes, end, copy.get(), frame.size()) || ::fdatasync(copy.get()) != 0 ||
      ::rename(copy_path.c_str(), path.c_str()) != 0) {
    const Error error = io_error("rewrite the meta line of", path, errno);
    ::unlink(copy_path.c_str());
    return error;
  }
  fd = std::move(copy);
  end = end - old_frame_bytes + frame.size();
  raw_bytes = raw_bytes - meta.content_bytes + new_meta.content_bytes;
  meta = std::move(new_meta);
  return {};
}

Status TraceFileWriter::sync() {
  if (::fdatasync(impl_->fd.get()) != 0) return io_error("sync", impl_->path, errno);
  return {};
}

std::uint64_t TraceFileWriter::stored_bytes() const { return impl_->end; }
std::uint64_t TraceFileWriter::raw_bytes() const { return impl_->raw_bytes; }

}  // namespace tensortap::format
