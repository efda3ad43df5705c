#include "probe/attach/torch_in_process.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "probe/attach/remote_image.h"

extern "C" {
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

BackendChoice find_backend(const TorchLibrary& torch, const std::string& library) {
  BackendChoice out;
  const std::string folder = library.substr(0, library.rfind('/') + 1);
  out.list = folder + "backends.txt";
  std::ifstream file(out.list);
  out.list_found = static_cast<bool>(file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  int best = kTtNoFit;
  TtBackendLine line;
  for (const char* at = text.c_str(); (at = tt_next_backend(at, &line)) != nullptr;) {
    const std::string path = line.file[0] == '/' ? line.file : folder + line.file;
    if (::access(path.c_str(), R_OK) != 0) continue;
    out.versions.emplace_back(line.version);
    const int fit = tt_backend_fit(&line, torch.build_id.c_str(), torch.version.c_str());
    if (fit > best) {
      best = fit;
      out.version = line.version;
    }
  }
  return out;
}

}  // namespace tensortap::probe
