// What trace-attach says: sentences for people, or one JSON object.
//
// Thread rules: pure.
//
//   std::cerr << text_report(report);   or   std::cout << json_report(report);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probe/attach/refusal.h"

namespace tensortap::probe {

struct AttachReport {
  AttachExit code = AttachExit::kAttached;
  std::string reason, remedy;          // of a refusal or failure
  std::vector<std::string> probe_log;  // what the probe in the job said, when it stays silent
  std::vector<std::string> notes;
  bool dry_run = false;
  int pid = 0;
  std::string program;  // last part of the executable's path
  std::string command, torch, backend;
  int thread = 0, stops = 0;
  std::uint64_t paused_ns = 0, longest_pause_ns = 0;
  std::string socket, state;  // state: of a private collector, else ""
  std::string run, folder;
  std::string analyze = "trace-analyze";  // how the user can call it
};

// Whole lines; commands to copy are indented.
std::string text_report(const AttachReport& report);
std::string json_report(const AttachReport& report);

}  // namespace tensortap::probe
