#include "probe/launch/torch_of_command.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "probe/launch/elf_segments.h"
#include "probe/launch/fd.h"
#include "probe/launch/job.h"
#include "probe/launch/places.h"

extern "C" {
#include "probe/preload/torch_version.h"
}

namespace tensortap::probe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kAnswerLimitMs = 10'000;
constexpr std::size_t kMaxAnswerBytes = 1u << 20;

// What finds torch's folder, and does not import it.
constexpr const char* kAskPython =
    "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])";

// Standard output of a short program, "" when it fails or takes too long.
std::string output_of(const std::vector<std::string>& command) {
  int pair[2];
  if (::pipe2(pair, O_CLOEXEC) != 0) return {};
  const Fd reader(pair[0]);
  Fd writer(pair[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, 0);
    ::dup2(writer.get(), 1);
    ::dup2(nothing, 2);
    exec_command(command);
    ::_exit(127);
  }
  if (child < 0) return {};
  writer.reset();
  std::string out;
  const auto deadline = Clock::now() + std::chrono::milliseconds(kAnswerLimitMs);
  bool whole = false;
  while (!whole && out.size() < kMaxAnswerBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{reader.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&wanted, 1, static_cast<int>(left)) <= 0) break;
    char buffer[4096];
    const ssize_t got = ::read(reader.get(), buffer, sizeof buffer);
    whole = got == 0;
    if (got > 0) out.append(buffer, static_cast<std::size_t>(got));
  }
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return whole && status == 0 ? out : std::string();
}

bool is_python(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.rfind("python", 0) == 0 && name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

// The dynamic loader that an ELF program names; "" for a static one and for what is no 64-bit ELF.
std::string loader_of(const std::string& program) {
  for (const std::string& name : elf_segments(program, PT_INTERP, 4096)) {
    if (!name.empty()) return name.c_str();
  }
  return {};
}

// Only glibc's loader has --list; another one might take the word for the name of a program, and run it.
std::string torch_linked_to(const std::string& program) {
  const std::string loader = loader_of(program);
  if (loader.find("/ld-linux") == std::string::npos) return {};
  return torch_in_library_list(output_of({loader, "--list", program}));
}

std::string torch_of_python(const std::string& python) {
  std::string folder = output_of({python, "-c", kAskPython});
  while (!folder.empty() && folder.back() == '\n') folder.pop_back();
  if (folder.empty()) return {};
  std::error_code error;
  const std::string wheel = folder + "/lib/libtorch_cpu.so";
  if (fs::exists(wheel, error)) return wheel;
  for (const auto& entry : fs::directory_iterator(folder, error)) {  // Debian's: libraries in the system
    const std::string name = entry.path().filename();
    if (name.rfind("_C.", 0) != 0 || entry.path().extension() != ".so") continue;
    return torch_in_library_list(output_of({loader_of("/proc/self/exe"), "--list", entry.path()}));
  }
  return {};
}

std::string first_line_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char line[256] = "";
  file.getline(line, sizeof line);
  return line;
}

}  // namespace

std::string interpreter_of_first_line(const std::string& first_line) {
  if (first_line.rfind("#!", 0) != 0) return {};
  std::istringstream words(first_line.substr(2));
  std::string word;
  if (!(words >> word)) return {};
  if (word.substr(word.rfind('/') + 1) != "env") return word;
  while (words >> word) {
    if (word[0] != '-' && word.find('=') == std::string::npos) return word;
  }
  return {};
}

std::string torch_in_library_list(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find("=> /");
    const std::size_t end = line.rfind(" (0x");
    if (arrow == std::string::npos || end == std::string::npos || end < arrow) continue;
    const std::string path = line.substr(arrow + 3, end - arrow - 3);
    if (tt_names_torch(path.c_str())) return path;
  }
  return {};
}

std::optional<std::string> torch_of_command(const std::vector<std::string>& command) {
  const auto program = find_command(command[0]);
  if (!program) return std::nullopt;
  std::string library;
  const std::string interpreter = interpreter_of_first_line(first_line_of(*program));
  if (is_python(*program)) {
    library = torch_of_python(*program);
  } else if (!interpreter.empty()) {
    if (is_python(interpreter)) library = torch_of_python(interpreter);
  } else {
    library = torch_linked_to(*program);
  }
  if (library.empty()) return std::nullopt;
  return library;
}

}  // namespace tensortap::probe
