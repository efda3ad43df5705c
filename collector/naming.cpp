#include "collector/naming.h"

#include <cstdio>
#include <random>

#include "collector/limits.h"

namespace tensortap::collector {

namespace {

constexpr std::size_t kMaxNameBytes = 40;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_interpreter(std::string_view name) {
  for (const std::string_view prefix : {"python", "pypy", "bash", "sh", "dash", "perl", "ruby", "node"}) {
    if (name.substr(0, prefix.size()) != prefix) continue;
    // "python3.11" is one, "python-server" and "shell" are not.
    if (name.find_first_not_of("0123456789.", prefix.size()) == std::string_view::npos) return true;
  }
  return false;
}

// The first argument that is no option; options that take a value hide it ("-X importtime", "-W ignore").
std::string_view script_of(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string_view argument = command[i];
    if (argument == "-m")
      return i + 1 < command.size() ? std::string_view(command[i + 1]) : std::string_view();
    if (argument == "-c" || argument == "-") return {};
    if (argument == "-X" || argument == "-W") {
      ++i;
      continue;
    }
    if (argument.empty() || argument[0] != '-') return base_name(argument);
  }
  return {};
}

std::string reduce(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (out.size() == kMaxNameBytes) break;
    const bool plain = is_letter_or_digit(c) || c == '_' || c == '-' || (c == '.' && !out.empty());
    if (plain) out += c;
  }
  return out;
}

}  // namespace

bool is_run_identity(std::string_view text) {
  if (text.empty() || text.size() > kMaxIdentityBytes) return false;
  for (const char c : text) {
    if (!is_letter_or_digit(c) && c != '-') return false;
  }
  return true;
}

std::string display_name(std::string_view exe, const std::vector<std::string>& command) {
  std::string_view program = base_name(exe);
  if (program.empty() && !command.empty()) program = base_name(command.front());
  std::string name;
  if (is_interpreter(program)) name = reduce(script_of(command));
  if (name.empty()) name = reduce(program);
  return name.empty() ? "job" : name;
}

std::string folder_name(std::time_t when, std::string_view name, std::int64_t pid, std::uint32_t random) {
  std::tm parts{};
  ::gmtime_r(&when, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
  char tail[48];
  std::snprintf(tail, sizeof tail, "-%lld-%08x", static_cast<long long>(pid), random);
  return std::string(stamp) + "-" + std::string(name) + tail;
}

std::uint32_t random_u32() {
  static thread_local std::random_device device;
  return device();
}

}  // namespace tensortap::collector
