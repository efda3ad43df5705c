#include "probe/launch/missing_backend.h"

#include <elf.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "format/default_paths.h"
#include "probe/launch/elf_segments.h"
#include "probe/launch/job.h"

extern "C" {
#include "probe/preload/backend_cache.h"
#include "probe/preload/backend_list.h"
#include "probe/preload/torch_version.h"
}

namespace tensortap::probe {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string hex_of(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

std::string build_id_in_notes(std::string_view notes) {
  const auto aligned = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note{};
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t text = sizeof note + aligned(note.n_namesz);
    const std::size_t next = text + aligned(note.n_descsz);
    if (next > notes.size()) return {};
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof note, 4) == std::string_view("GNU\0", 4))
      return hex_of(notes.substr(text, note.n_descsz));
    notes.remove_prefix(next);
  }
  return {};
}

std::string build_id_of(const std::string& library) {
  constexpr std::size_t kMaxNoteBytes = 1u << 16;
  for (const std::string& notes : elf_segments(library, PT_NOTE, kMaxNoteBytes)) {
    if (std::string id = build_id_in_notes(notes); !id.empty()) return id;
  }
  return {};
}

// Is there a symbol of c10's own with the new std::string in it? Others prove nothing: pip's 2.6 is of the
// old ABI and exports a piece of libstdc++ with both.
bool names_new_string(std::string_view library) {
  constexpr std::string_view kOurs = "_ZN3c10";
  for (std::size_t at = 0; (at = library.find(kOurs, at)) != std::string_view::npos; at += kOurs.size()) {
    const std::string_view rest = library.substr(at, 4096);
    if (rest.substr(0, rest.find('\0')).find("__cxx11") != std::string_view::npos) return true;
  }
  return false;
}

// "…-abi0.so" and "…-abi1.so" say which; a file of another name may be either.
bool other_abi(std::string_view file, bool cxx11) {
  const std::string_view other = cxx11 ? "-abi0.so" : "-abi1.so";
  return file.size() >= other.size() && file.substr(file.size() - other.size()) == other;
}

std::string cache_home() {
  std::string folder = format::environment_folder("XDG_CACHE_HOME");
  if (!folder.empty()) return folder;
  folder = format::environment_folder("HOME");
  return folder.empty() ? folder : folder + "/.cache";
}

}  // namespace

TorchFile describe_torch_file(const std::string& libtorch_cpu) {
  TorchFile torch{.path = libtorch_cpu, .version = {}, .build_id = build_id_of(libtorch_cpu)};
  char version[64];
  tt_version_of_torch(libtorch_cpu.c_str(), "", version, sizeof version);
  torch.version = version;
  const std::string core = text_of(libtorch_cpu.substr(0, libtorch_cpu.rfind('/') + 1) + "libc10.so");
  torch.cxx11 = core.empty() || names_new_string(core);
  return torch;
}

bool list_has_backend(const std::string& list, const TorchFile& torch) {
  TtBackendLine line;
  for (const char* at = list.c_str(); (at = tt_next_backend(at, &line)) != nullptr;) {
    const TtFit fit = tt_backend_fit(&line, torch.build_id.c_str(), torch.version.c_str());
    if (fit == kTtSameBuild || (fit == kTtSameVersion && !other_abi(line.file, torch.cxx11))) return true;
  }
  return false;
}

std::string backend_cache_folder(const std::string& library_folder) {
  const char* named = std::getenv("TENSORTAP_BACKENDS");
  char folder[PATH_MAX];
  const bool found = tt_backend_cache_folder(named == nullptr ? "" : named, cache_home().c_str(),
                                             library_folder.c_str(), folder, sizeof folder);
  return found ? folder : std::string();
}

bool has_backend(const TorchFile& torch, const std::string& library_folder, const std::string& cache_folder) {
  if (list_has_backend(text_of(library_folder + "backends.txt"), torch)) return true;
  return !cache_folder.empty() &&
         tt_check_backend_cache(cache_folder.c_str(), ::geteuid()) == kTtCacheUsable &&
         list_has_backend(text_of(cache_folder + "backends.txt"), torch);
}

bool build_backend(const std::string& program, const std::string& libtorch_cpu,
                   const std::string& cache_folder, bool quiet) {
  std::vector<std::string> command{program, "--torch", libtorch_cpu};
  if (quiet) command.emplace_back("--quiet");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(2, 1);
    if (!cache_folder.empty()) ::setenv("TENSORTAP_BACKENDS", cache_folder.c_str(), 1);
    exec_command(command);
    ::_exit(127);
  }
  int status = -1;
  if (child > 0) ::waitpid(child, &status, 0);
  return child > 0 && status == 0;
}

}  // namespace tensortap::probe
