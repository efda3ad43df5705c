// What trace-run says at the end: where each trace is and the command that reads it; or why there is none.
//
// Thread rules: pure, but for asking whether processes still live.
//
//   std::cerr << summary(outcome);
#pragma once

#include <string>
#include <vector>

#include "probe/launch/ctl_client.h"

namespace tensortap::probe {

struct Outcome {
  std::string capture;  // what was asked for; "" = everything
  std::vector<CollectedRun> runs;
  std::vector<pid_t> still_running;    // processes of the launch
  std::vector<std::string> probe_log;  // lines of the preload parts (TENSORTAP_LOG)
  std::string ask_error;               // the collector could not be asked
  std::string socket;
  std::string state;                                // of a private collector, else ""
  std::string analyze = "trace-analyze";            // how the user can call it
  std::string builder = "tensortap-build-backend";  // the program that builds a missing backend
  bool disabled = false;                            // TENSORTAP_DISABLE is set
};

// Whole lines: sentences begin with "trace-run: ", commands to copy are indented.
std::string summary(const Outcome& outcome);

// What the user types to build the backend for a libtorch_cpu.
std::string build_command(const std::string& builder, const std::string& libtorch_cpu);

// A word as a shell takes it back.
std::string shell_quoted(const std::string& word);

}  // namespace tensortap::probe
