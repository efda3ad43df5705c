#include "probe/launch/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "format/default_paths.h"

namespace tensortap::probe {
namespace {

namespace fs = std::filesystem;
using format::Error;
using format::ErrorCode;

constexpr std::string_view kLibrary = "libtensortap.so";

// 0 when it is a file that may be executed, else why not.
int check_executable(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : EACCES;
}

// Calls `visit` with each candidate in PATH until it returns true.
template <class Visit>
void for_each_in_path(const std::string& name, Visit visit) {
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "/bin:/usr/bin" : variable;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    if (visit((folder.empty() ? "." : std::string(folder)) + "/" + name)) return;
    if (colon == std::string_view::npos) return;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string() : self.parent_path().string();
}

format::Result<std::string> find_preload_library() {
  const fs::path folder = program_folder();
  // A build tree and a plain prefix have lib/, Debian's own prefix lib/<triplet>/ (TENSORTAP_INSTALL_LIBDIR).
  for (const fs::path& candidate : {folder / "../lib/tensortap" / kLibrary,
                                    folder / ".." / TENSORTAP_INSTALL_LIBDIR / "tensortap" / kLibrary}) {
    std::error_code error;
    const std::string path = fs::canonical(candidate, error).string();
    if (error) continue;
    if (path.find_first_of(" :\t\n") == std::string::npos) return path;
    return Error{
        .code = ErrorCode::kInvalidArgument,
        .message = path +
                   " can't be preloaded: LD_PRELOAD splits at blanks and colons; move tensortap to a "
                   "folder without them"};
  }
  return Error{.code = ErrorCode::kNotFound,
               .message = "the probe libtensortap.so is missing (looked in " +
                          (folder / "../lib/tensortap").lexically_normal().string() +
                          "): build or install it"};
}

format::Result<std::string> find_program(const std::string& name) {
  const std::string beside = program_folder() + "/" + name;
  if (check_executable(beside) == 0) return beside;
  std::string found;
  for_each_in_path(name, [&](const std::string& candidate) {
    if (check_executable(candidate) != 0) return false;
    std::error_code error;
    found = fs::absolute(candidate, error).string();
    return true;
  });
  if (!found.empty()) return found;
  return Error{.code = ErrorCode::kNotFound,
               .message = name + " is neither beside trace-run (" + program_folder() + ") nor in PATH"};
}

int check_command(const std::string& command) {
  if (command.find('/') != std::string::npos) return check_executable(command);
  int result = ENOENT;
  for_each_in_path(command, [&](const std::string& candidate) {
    const int error = check_executable(candidate);
    if (error == EACCES || error == 0) result = error;
    return error == 0;
  });
  return result;
}

std::optional<std::string> find_command(const std::string& command) {
  std::optional<std::string> found;
  const auto take = [&found](const std::string& candidate) {
    if (check_executable(candidate) == 0) found = candidate;
    return found.has_value();
  };
  if (command.find('/') != std::string::npos) {
    take(command);
  } else {
    for_each_in_path(command, take);
  }
  return found;
}

format::Status make_state_folder(const std::string& path) {
  if (path.empty()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "there is no default state folder (HOME is not set): name one with --state"};
  }
  std::error_code error;
  fs::create_directories(path, error);
  int number = error.value();
  if (number == 0 && ::access(path.c_str(), W_OK | X_OK) != 0) number = errno;
  if (number == 0) return {};
  return Error{.code = ErrorCode::kIo,
               .message = "the state folder " + path + " can't be written (" + std::strerror(number) +
                          "): choose another with --state"};
}

format::Result<std::string> make_private_folder() {
  constexpr std::string_view kName = "/tensortap-XXXXXX";
  for (std::string base : {format::environment_folder("XDG_RUNTIME_DIR"), std::string("/tmp")}) {
    if (base.empty()) continue;
    std::string folder = base.append(kName);
    if (private_socket(folder).size() > format::kMaxSocketPathBytes) continue;
    if (::mkdtemp(folder.data()) != nullptr) return folder;
  }
  return Error{
      .code = ErrorCode::kIo,
      .message = std::string("can't make a folder for a private socket in XDG_RUNTIME_DIR or /tmp: ") +
                 std::strerror(errno)};
}

void remove_private_folder(const std::string& folder) {
  ::unlink(private_socket(folder).c_str());
  ::unlink(private_log(folder).c_str());
  ::rmdir(folder.c_str());
}

std::string private_socket(const std::string& folder) { return folder + "/collector.sock"; }
std::string private_log(const std::string& folder) { return folder + "/probe.log"; }

}  // namespace tensortap::probe
