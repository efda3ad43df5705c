// The command line of trace-ctl.
//
// Thread rules: none. Pure but for reading TENSORTAP_SOCKET, XDG_* and HOME.
#pragma once

#include <optional>
#include <string>

namespace tensortap::probe {

inline constexpr int kCtlDone = 0;
inline constexpr int kCtlFailed = 1;  // nothing fits, an order was not obeyed, a capture failed
inline constexpr int kCtlUsage = 2;
inline constexpr int kCtlNoCollector = 3;  // nothing listens at the socket, or not a collector

struct CtlOptions {
  enum class Command { kList, kStatus, kStart, kStop };
  Command command = Command::kList;
  std::string socket;
  std::string pid, rank, name, launch;  // which probes; "" = not said
  bool all = false;
  bool json = false;
  std::string capture;  // of start: probe/core/capture_plan.h
  bool wait = true;     // of start: until the traces are there
};

struct ParsedCtlOptions {
  CtlOptions options;
  std::optional<int> exit_code;  // set: print `text` and leave
  std::string text;
};

ParsedCtlOptions parse_ctl_options(int argc, const char* const* argv);

}  // namespace tensortap::probe
