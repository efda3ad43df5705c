#include "probe/launch/launch_processes.h"

#include <dirent.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tensortap::probe {
namespace {

// The environment block a process was started with; "" for a zombie and for other users' processes.
std::string environment_of(const char* pid) {
  std::ifstream file(std::string("/proc/") + pid + "/environ", std::ios::binary);
  std::string block(std::istreambuf_iterator<char>(file), {});
  block.insert(block.begin(), '\0');  // each variable now stands between two NULs
  block.push_back('\0');
  return block;
}

}  // namespace

std::string make_launch_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

std::vector<pid_t> processes_of_launch(const std::string& token) {
  std::vector<pid_t> out;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return out;
  std::string wanted(1, '\0');
  wanted.append(kLaunchVariable).append("=").append(token).push_back('\0');
  while (const dirent* entry = ::readdir(proc)) {
    const char* name = entry->d_name;
    if (name[0] < '1' || name[0] > '9') continue;
    const auto pid = static_cast<pid_t>(std::strtol(name, nullptr, 10));
    if (pid != ::getpid() && environment_of(name).find(wanted) != std::string::npos) out.push_back(pid);
  }
  ::closedir(proc);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tensortap::probe
