#include "analyzers/cut/trace_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "format/line_blocks.h"

namespace tensortap::analyzers {
namespace {

using format::ByteSource;
using format::Error;
using format::ErrorCode;
using format::FileDescriptor;
using format::Result;

constexpr std::size_t kCopyBytes = 256 * 1024;

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool is_regular(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// A file without a name that holds everything that can be read from `fd`.
Result<FileDescriptor> copy_of(int fd, const std::string& name) {
  std::error_code ignored;
  std::string path = (std::filesystem::temp_directory_path(ignored) / "tensortap-XXXXXX").string();
  FileDescriptor copy(::mkostemp(path.data(), O_CLOEXEC));
  if (!copy) return format::io_error("create a temporary copy of " + name + " in", path, errno);
  ::unlink(path.c_str());
  std::string buffer(kCopyBytes, '\0');
  for (std::uint64_t offset = 0;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return format::io_error("read", name, errno);
    if (got == 0) return copy;
    if (!format::write_at(copy.get(), std::string_view(buffer).substr(0, static_cast<std::size_t>(got)),
                          offset))
      return format::io_error("write a temporary copy of " + name + " to", path, errno);
    offset += static_cast<std::uint64_t>(got);
  }
}

}  // namespace

Result<TraceInput> TraceInput::open(const std::string& path, bool twice) {
  TraceInput input;
  input.name_ = path == "-" ? "<standard input>" : path;
  input.path_ = path;
  // A file that standard input was redirected from can be read like one, if nobody has begun to.
  if (path == "-" && is_regular(path_of(STDIN_FILENO)) && ::lseek(STDIN_FILENO, 0, SEEK_CUR) == 0)
    input.path_ = path_of(STDIN_FILENO);
  if (twice && !is_regular(input.path_)) {
    FileDescriptor opened;
    if (path != "-") {
      opened = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!opened) return format::io_error("open", path, errno);
    }
    auto copy = copy_of(opened ? opened.get() : STDIN_FILENO, input.name_);
    if (!copy) return copy.error();
    input.copy_ = std::move(*copy);
    input.path_ = path_of(input.copy_.get());
  }
  if (input.path_ == "-") return input;
  auto index = format::TraceIndex::open(input.path_);
  if (index) {
    input.index_.emplace(std::move(*index));
  } else if (index.error().code == ErrorCode::kNotFound || index.error().code == ErrorCode::kIo) {
    return index.error();
  }
  return input;
}

WalkReport TraceInput::walk(BlockVisitor& visitor) const {
  WalkReport report;
  if (index_) {
    walk_frames(visitor, report);
  } else {
    walk_stream(ByteSource::open(path_), visitor, report);
  }
  return report;
}

void TraceInput::walk_frames(BlockVisitor& visitor, WalkReport& report) const {
  if (index_->meta_is_damaged()) {
    report.errors.push_back(named(format::damaged_meta_line(path_)));
  }
  if (!visitor.use(index_->meta_line(), 0)) return;
  format::FrameCodec codec;
  for (std::size_t i = 0; i < index_->frames().size(); ++i) {
    const format::FrameEntry& frame = index_->frames()[i];
    if (!visitor.wants(frame, i)) continue;
    ++report.frames_read;
    const auto lines = index_->read(frame, codec);
    if (!lines) {
      report.errors.push_back(named(lines.error()));
    } else if (!lines->empty() && !visitor.use(*lines, 0)) {
      return;
    }
  }
  if (index_->rest() < index_->file_bytes())
    walk_stream(ByteSource::open_zstd(path_, index_->rest()), visitor, report);
}

void TraceInput::walk_stream(Result<ByteSource> source, BlockVisitor& visitor, WalkReport& report) const {
  if (!source) {
    report.errors.push_back(named(source.error()));
    return;
  }
  format::LineBlocks blocks(std::move(*source));
  std::string_view block;
  while (blocks.next(block)) {
    if (!visitor.use(block, blocks.readable_behind())) return;
  }
  report.truncated = blocks.truncated();
  if (blocks.error()) report.errors.push_back(named(*blocks.error()));
}

// Under the name that the user gave.
Error TraceInput::named(Error error) const {
  error.file = name_;
  return error;
}

}  // namespace tensortap::analyzers
