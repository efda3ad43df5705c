// The command line of trace-attach.
//
// Thread rules: none. Pure but for reading TENSORTAP_SOCKET, XDG_* and HOME.
//
//   AttachOptions options;
//   if (auto ended = parse_attach_options(argc, argv, options)) { …print ended->text, leave with
//   ended->exit_code… }
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace tensortap::probe {

struct AttachOptions {
  pid_t pid = 0;
  std::string socket;   // "" = the default of whoever the job belongs to
  std::string state;    // "" = likewise
  std::string capture;  // "" = everything
  bool dry_run = false;
  bool json = false;
  bool quiet = false;
};

struct EndedByOptions {
  int exit_code = 0;
  std::string text;  // ends with a newline
};

std::optional<EndedByOptions> parse_attach_options(int argc, const char* const* argv, AttachOptions& out);

}  // namespace tensortap::probe
