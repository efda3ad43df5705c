#include "probe/attach/torch_in_process.h"

#include <limits.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "probe/attach/remote_image.h"

extern "C" {
#include "probe/preload/backend_cache.h"
#include "probe/preload/backend_list.h"
#include "probe/preload/torch_version.h"
}

namespace tensortap::probe {

std::optional<TorchLibrary> find_torch(const std::vector<Mapping>& mappings, const RemoteMemory& memory) {
  const Mapping* mapping = find_image(mappings, "libtorch_cpu.so");
  if (mapping == nullptr) return std::nullopt;
  TorchLibrary torch;
  torch.path = mapping->path;
  std::string soname;
  if (const auto image = RemoteImage::at(memory, mapping->begin)) {
    soname = image->soname();
    torch.build_id = image->build_id();
  }
  char version[64];
  tt_version_of_torch(torch.path.c_str(), soname.c_str(), version, sizeof version);
  torch.version = version;
  return torch;
}

namespace {

// The user's folder of backends as a process finds it that was started with this environment; "": none that
// may be used. (The same look-ups: preload/config.c.)
std::string cache_folder_of(pid_t pid, uid_t owner, const std::string& library_folder) {
  const std::string named = started_with(pid, "TENSORTAP_BACKENDS");
  std::string home = started_with(pid, "XDG_CACHE_HOME");
  if (home.empty() || home[0] != '/') {
    home = started_with(pid, "HOME");
    if (!home.empty()) home += "/.cache";
  }
  char folder[PATH_MAX];
  const bool found =
      tt_backend_cache_folder(named.c_str(), home.c_str(), library_folder.c_str(), folder, sizeof folder);
  return found && tt_check_backend_cache(folder, owner) == kTtCacheUsable ? folder : std::string();
}

std::string text_of(const std::string& path, bool* found = nullptr) {
  std::ifstream file(path);
  if (found != nullptr) *found = static_cast<bool>(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

BackendChoice find_backend(const TorchLibrary& torch, const std::string& library, pid_t pid, uid_t owner) {
  BackendChoice out;
  const std::string own = library.substr(0, library.rfind('/') + 1);
  out.list = own + "backends.txt";
  const std::string own_list = text_of(out.list, &out.list_found);
  const std::string cache = cache_folder_of(pid, owner, own);
  const std::string cached_list = cache.empty() ? std::string() : text_of(cache + "backends.txt");
  int best = kTtNoFit;
  for (const auto& [folder, list] : {std::pair{&own, &own_list}, std::pair{&cache, &cached_list}}) {
    TtBackendLine line;
    for (const char* at = list->c_str(); (at = tt_next_backend(at, &line)) != nullptr;) {
      const std::string path = line.file[0] == '/' ? line.file : *folder + line.file;
      if (::access(path.c_str(), R_OK) != 0) continue;
      out.versions.emplace_back(line.version);
      const int fit = tt_backend_fit(&line, torch.build_id.c_str(), torch.version.c_str());
      if (fit > best) {
        best = fit;
        out.version = line.version;
      }
    }
  }
  return out;
}

}  // namespace tensortap::probe
