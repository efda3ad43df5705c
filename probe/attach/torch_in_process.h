// The libtorch of another process, and the backend that fits it, by the same rules as the preload part inside
// a job.
//
// Thread rules: none of its own; reads the process's memory, backends.txt and the files beside libtorch.
//
//   auto torch = find_torch(mappings, memory);
//   if (torch) backend = find_backend(*torch, library, pid, owner);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/attach/process_view.h"
#include "probe/attach/remote_memory.h"

namespace tensortap::probe {

struct TorchLibrary {
  std::string path, version, build_id;
};

std::optional<TorchLibrary> find_torch(const std::vector<Mapping>& mappings, const RemoteMemory& memory);

struct BackendChoice {
  bool list_found = false;
  std::string list;                   // path of backends.txt
  std::string version;                // of the backend that fits, "" when none does
  std::vector<std::string> versions;  // of all there are
};

// Looks where the preload part inside process `pid` (of user `owner`) will: in the folder of `library`
// (libtensortap.so), then in that of the backends built on the spot, by the environment that the job was
// started with. One whose file is missing is not counted.
BackendChoice find_backend(const TorchLibrary& torch, const std::string& library, pid_t pid, uid_t owner);

}  // namespace tensortap::probe
