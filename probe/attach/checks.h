// Everything that is looked at before a job is touched: may it be attached to, can it be, is there a torch, a
// backend?
//
// Thread rules: none of its own; reads /proc and the backend list, changes nothing.
//
//   auto found = examine(pid, library);
//   if (auto* refusal = std::get_if<Refusal>(&found)) …say it…
//   use(std::get<Attachable>(found));
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "probe/attach/process_view.h"
#include "probe/attach/refusal.h"
#include "probe/attach/remote_memory.h"

namespace tensortap::probe {

struct Attachable {
  pid_t pid = 0;
  ProcessStatus status;
  std::string exe, command;
  std::string torch_path, torch_version;  // version: as far as names and files tell it
  std::string backend_version;            // of the backend that fits
  std::uint64_t dlopen = 0;               // addresses in the process
  std::uint64_t restorer = 0;
  std::uint64_t loaded_library =
      0;  // where an unused libtensortap.so lies already (an attach that was broken off), or 0
};

std::variant<Attachable, Refusal> examine(pid_t pid, const std::string& library);

}  // namespace tensortap::probe
