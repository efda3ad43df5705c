#include "probe/attach/process_view.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "probe/launch/fd.h"

namespace tensortap::probe {
namespace {

std::string proc(pid_t pid, const std::string& name) { return "/proc/" + std::to_string(pid) + "/" + name; }

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string link_of(const std::string& path) {
  char text[4096];
  const ssize_t length = ::readlink(path.c_str(), text, sizeof text);
  return length < 0 ? std::string() : std::string(text, static_cast<std::size_t>(length));
}

bool starts_with(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

}  // namespace

std::optional<ProcessStatus> read_status(pid_t pid) {
  std::ifstream file(proc(pid, "status"));
  if (!file) return std::nullopt;
  ProcessStatus out;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Name:") out.name = line.substr(line.find('\t') + 1);
    if (key == "State:") words >> out.state;
    if (key == "Tgid:") words >> out.thread_group;
    if (key == "TracerPid:") words >> out.tracer;
    if (key == "Uid:") words >> out.real_uid >> out.effective_uid >> out.saved_uid;
    gid_t real_gid;
    if (key == "Gid:") words >> real_gid >> out.effective_gid;
    if (key == "x86_Thread_features:") out.shadow_stack = line.find("shstk") != std::string::npos;
  }
  if (out.thread_group == 0) return std::nullopt;
  return out;
}

std::string_view Mapping::file() const { return std::string_view(path).substr(path.rfind('/') + 1); }

std::vector<Mapping> read_mappings(pid_t pid) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::vector<Mapping> out;
  std::ifstream file(proc(pid, "maps"));
  for (std::string line; std::getline(file, line);) {
    Mapping mapping;
    unsigned long begin = 0, end = 0, offset = 0;
    char rights[5] = {};
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*s %n", &begin, &end, rights, &offset, &path_at) < 4)
      continue;
    mapping.begin = begin;
    mapping.end = end;
    mapping.offset = offset;
    mapping.executable = rights[2] == 'x';
    if (path_at > 0) mapping.path = line.substr(static_cast<std::size_t>(path_at));
    if (mapping.path.size() > kDeleted.size() &&
        mapping.path.compare(mapping.path.size() - kDeleted.size(), kDeleted.size(), kDeleted) == 0) {
      mapping.path.resize(mapping.path.size() - kDeleted.size());
    }
    out.push_back(std::move(mapping));
  }
  return out;
}

const Mapping* find_image(const std::vector<Mapping>& mappings, std::string_view begins) {
  for (const Mapping& mapping : mappings) {
    if (mapping.offset == 0 && starts_with(mapping.file(), begins)) return &mapping;
  }
  return nullptr;
}

ThreadActivity read_activity(pid_t pid, pid_t thread) {
  ThreadActivity out;
  const std::string text = read_all(proc(pid, "task/" + std::to_string(thread) + "/syscall"));
  if (text.empty()) return out;
  out.readable = true;
  out.running = starts_with(text, "running");
  if (out.running) return out;
  char* at = nullptr;
  out.call = std::strtol(text.c_str(), &at, 10);
  for (std::uint64_t& argument : out.arguments) argument = std::strtoull(at, &at, 16);
  return out;
}

std::vector<pid_t> read_threads(pid_t pid) {
  std::vector<pid_t> out;
  DIR* folder = ::opendir(proc(pid, "task").c_str());
  if (folder == nullptr) return out;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') out.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
  }
  ::closedir(folder);
  return out;
}

ExecutableKind executable_kind(pid_t pid) {
  const Fd file(::open(proc(pid, "exe").c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header;
  if (!file || ::pread(file.get(), &header, sizeof header, 0) != sizeof header)
    return ExecutableKind::kUnreadable;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return ExecutableKind::kUnreadable;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    return ExecutableKind::kOtherMachine;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const auto at = static_cast<off_t>(header.e_phoff + static_cast<std::uint64_t>(i) * sizeof segment);
    if (::pread(file.get(), &segment, sizeof segment, at) != sizeof segment)
      return ExecutableKind::kUnreadable;
    if (segment.p_type == PT_INTERP) return ExecutableKind::kDynamic;
  }
  return ExecutableKind::kStatic;
}

std::string executable_path(pid_t pid) { return link_of(proc(pid, "exe")); }

std::string read_command(pid_t pid) {
  std::string text = read_all(proc(pid, "cmdline"));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  return text;
}

std::string started_with(pid_t pid, std::string_view variable) {
  const std::string block = '\0' + read_all(proc(pid, "environ"));
  const std::string wanted = '\0' + std::string(variable) + "=";
  const std::size_t at = block.find(wanted);
  if (at == std::string::npos) return {};
  return block.c_str() + at + wanted.size();
}

std::string differing_namespace(pid_t pid) {
  for (const char* name : {"mnt", "pid"}) {
    const std::string theirs = link_of(proc(pid, std::string("ns/") + name));
    if (theirs.empty()) return "?";
    if (theirs != link_of(std::string("/proc/self/ns/") + name)) return name[0] == 'm' ? "mount" : "pid";
  }
  struct stat theirs {
  }, ours{};
  if (::stat(proc(pid, "root/.").c_str(), &theirs) != 0 || ::stat("/", &ours) != 0) return "?";
  return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino ? "" : "root folder";
}

}  // namespace tensortap::probe
