#include "format/io.h"

#include <cerrno>
#include <cstring>

namespace tensortap::format {
namespace {

const char* remedy(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that this user may write to";
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another folder";
    case EEXIST:
      return "; remove it or choose another name";
    case ENOENT:
      return "; check the path";
    case EISDIR:
      return "; name a file in it";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

}  // namespace

Error io_error(std::string_view what, const std::string& path, int error_number) {
  Error error;
  error.code = error_number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  error.message = "cannot ";
  error.message += what;
  error.message += " " + path + ": " + std::strerror(error_number) + remedy(error_number);
  return error;
}

ssize_t read_at(int fd, void* to, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool write_at(int fd, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return true;
}

}  // namespace tensortap::format
