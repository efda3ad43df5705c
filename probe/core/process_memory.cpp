#include "probe/core/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "probe/core/small_file.h"

namespace tensortap::probe {

namespace {

// Of one group; the greatest number when it has none ("max", or no such file).
std::uint64_t limit_in(const std::string& file) {
  const std::string text = read_small_file(file.c_str());
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return ~std::uint64_t{0};
  const std::uint64_t bytes = std::strtoull(text.c_str(), nullptr, 10);
  return bytes == 0 ? ~std::uint64_t{0} : bytes;
}

// Of the group `path` below `root` and of all above it.
std::uint64_t limit_up(const std::string& root, std::string path, const char* name) {
  std::uint64_t least = ~std::uint64_t{0};
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    least = std::min(least, limit_in(root + path + name));
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// Is `word` one of the words of a list with commas?
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace

std::uint64_t least_limit(std::uint64_t machine_bytes, std::string_view groups, const std::string& root) {
  std::uint64_t least = machine_bytes;
  while (!groups.empty()) {
    const std::size_t end = std::min(groups.find('\n'), groups.size());
    const std::string_view line = groups.substr(0, end);  // number:controllers:/path
    groups.remove_prefix(std::min(end + 1, groups.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) {
      least = std::min(least, limit_up(root, path, "/memory.max"));
    } else if (lists(controllers, "memory")) {
      least = std::min(least, limit_up(root + "/memory", path, "/memory.limit_in_bytes"));
    }
  }
  return least;
}

std::uint64_t memory_limit_bytes() noexcept {
  const auto machine =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  try {
    return least_limit(machine, read_small_file("/proc/self/cgroup"), "/sys/fs/cgroup");
  } catch (...) {
    return machine;
  }
}

std::uint64_t resident_bytes() noexcept {
  try {
    const std::string text = read_small_file("/proc/self/statm");
    const std::size_t second = text.find(' ');
    if (second == std::string::npos) return 0;
    return std::strtoull(text.c_str() + second + 1, nullptr, 10) *
           static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  } catch (...) {
    return 0;
  }
}

}  // namespace tensortap::probe
