// The command line of trace-run: our options, then the job's command, whose own options are not ours.
//
// Thread rules: none. Pure but for reading TENSORTAP_SOCKET, XDG_* and HOME.
//
//   ParsedOptions parsed = parse_options(argc, argv);
//   if (parsed.exit_code) { (*parsed.exit_code ? std::cerr : std::cout) << parsed.text; return
//   *parsed.exit_code; } run(parsed.options);
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tensortap::probe {

inline constexpr int kExitUsage = 2;       // wrong options
inline constexpr int kExitTraceRun = 125;  // trace-run's own failure, as env and docker do it
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct Options {
  std::string socket;        // absolute, at most 107 bytes
  std::string state;         // absolute; "" when there is no default
  bool state_given = false;  // --state
  std::string capture;       // TENSORTAP_CAPTURE (probe/core/capture_plan.h); "" = as the environment says
  bool gradients = false;
  std::string stats;      // patterns of module paths; "" = none
  std::string when_full;  // "drop", "block"; "" = as the environment says
  bool quiet = false;
  bool exec = false;
  bool build = true;  // build a backend that is missing (--no-build, TENSORTAP_BUILD_BACKEND=0)
  std::vector<std::string> command;  // never empty
};

struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;  // set: print `text` and leave (--help, --version, usage errors)
  std::string text;              // ends with a newline
};

ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace tensortap::probe
