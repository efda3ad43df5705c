#include "analyzers/output/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace tensortap::analyzers {
namespace {

using format::io_error;
using format::Result;
using format::Status;

constexpr std::size_t kBufferBytes = 1024 * 1024;
constexpr mode_t kNewFileMode = 0640;  // as format/container.cpp
constexpr int kMostLinks = 40;         // as the kernel

bool is_standard(const std::string& path) { return path.empty() || path == "-"; }

// What `path` is, or the descriptor that "-" stands for.
std::optional<struct stat> look_at(const std::string& path, int standard) {
  struct stat status {};
  const int failed = is_standard(path) ? ::fstat(standard, &status) : ::stat(path.c_str(), &status);
  return failed == 0 ? std::optional(status) : std::nullopt;
}

bool are_one(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

mode_t without_umask(mode_t mode) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mode & ~mask;
}

}  // namespace

std::string follow_links(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(at, error); ++i) {
    const std::filesystem::path to = std::filesystem::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / to;  // an absolute one replaces all
  }
  return at.string();
}

bool would_replace(const std::string& output, const std::string& input) {
  const auto to = look_at(output, STDOUT_FILENO);
  const auto from = look_at(input, STDIN_FILENO);
  return to && from && S_ISREG(to->st_mode) && are_one(*to, *from);
}

std::string replacement_text(const std::string& input) {
  return "the output would replace the trace " + (is_standard(input) ? "on standard input" : input) +
         "; name another file";
}

Result<std::unique_ptr<OutputFile>> OutputFile::open(const std::string& path) {
  std::unique_ptr<OutputFile> out(new OutputFile());
  out->name_ = is_standard(path) ? "standard output" : path;
  if (is_standard(path)) return out;
  const auto old = look_at(path, -1);
  const auto standard = look_at("-", STDOUT_FILENO);
  if (old && standard && are_one(*old, *standard)) return out;  // /dev/stdout, or `-o X > X`
  if (!old || S_ISREG(old->st_mode)) {
    if (Status status = out->create_beside(follow_links(path)); !status) return status.error();
    return out;
  }
  out->file_ = format::FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!out->file_) return io_error("write", path, errno);
  return out;
}

// Of a file that is there: its mode, and its owner where this user may give that.
Status OutputFile::create_beside(const std::string& target) {
  const auto old = look_at(target, -1);
  if (old && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0)
    return io_error("write", name_, errno);  // a rename would not ask
  std::string temporary = target + ".XXXXXX";
  file_ = format::FileDescriptor(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file_) return io_error("create a file beside", name_, errno);
  target_ = target;
  temporary_ = std::move(temporary);
  [[maybe_unused]] const int given = old ? ::fchown(file_.get(), old->st_uid, old->st_gid) : 0;
  const mode_t mode = old ? old->st_mode & 07777 : without_umask(kNewFileMode);
  if (::fchmod(file_.get(), mode) != 0) return io_error("set the mode of", name_, errno);
  return {};
}

OutputFile::~OutputFile() {
  if (is_renamed()) ::unlink(temporary_.c_str());
}

Status OutputFile::write(std::string_view bytes) {
  if (error_) return *error_;
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    if (Status status = flush(buffer_); !status) return status;
    buffer_.clear();
  }
  if (bytes.size() >= kBufferBytes) return flush(bytes);
  buffer_ += bytes;
  return {};
}

Status OutputFile::close() {
  if (error_) return *error_;
  if (Status status = flush(buffer_); !status) return status;
  buffer_.clear();
  if (!is_renamed()) return {};
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return io_error("write", name_, errno);
  temporary_.clear();
  return {};
}

Status OutputFile::flush(std::string_view bytes) {
  const int fd = file_ ? file_.get() : STDOUT_FILENO;
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return *(error_ = io_error("write", name_, errno));
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

format::FileDescriptor OutputFile::duplicate() const {
  return format::FileDescriptor(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
}

std::streamsize OutputBuffer::xsputn(const char* bytes, std::streamsize size) {
  return file_.write({bytes, static_cast<std::size_t>(size)}).ok() ? size : 0;
}

OutputBuffer::int_type OutputBuffer::overflow(int_type byte) {
  const char one = traits_type::to_char_type(byte);
  return xsputn(&one, 1) == 1 ? byte : traits_type::eof();
}

}  // namespace tensortap::analyzers
