// A control client of the collector (proto/session.md, "Control"): which runs belong to a launch, and are
// they done? Which probes are there, and what are they told?
//
// Thread rules: one call, one connection; blocking, with a limit. Reads at most 16 MiB of answer.
//
//   auto runs = ask_collector({.socket = path, .command = "wait", .launch = token, .limit_ms = 30000});
//   if (!runs && runs.error().code == format::ErrorCode::kNotFound) …nothing listens there…
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "format/result.h"

namespace tensortap::probe {

struct CollectedRun {
  std::string run;     // identity
  std::string folder;  // where its trace is
  std::string state;   // open, complete, failed
  std::string reason;  // of a failed one
  std::string exe;
  std::string parent_run;  // of a forked worker
  pid_t pid = 0;
};

// A probe that is connected.
struct ConnectedProbe {
  pid_t pid = 0;
  std::string state;  // idle, watching, ready, capturing, closing, always-on
  std::string exe, torch, launch;
  std::vector<std::string> command;
  std::string rank, world_size;           // numbers as text; "" = not known
  std::string last_run;                   // of the capture that began last, open or over
  std::string run, step, rings, dropped;  // of the capture that is open
  std::string error;                      // why the last order was not obeyed
  std::string always_on;                  // JSON of its last counts
  std::string json;                       // as the collector says it
};

struct CtlRequest {
  std::string socket;
  std::string command;  // "runs" or "wait"; of ask_probes "list", "start" or "stop"
  std::string launch{};
  // Of ask_probes: which of them (each that is given must fit), and for "start" what to capture.
  std::string pid{}, rank{};  // decimal numbers
  std::string name{}, capture{};
  int limit_ms = 2000;    // for the whole answer; "wait" passes it on to the collector
  int interrupt_fd = -1;  // readable: stop waiting (kTruncated)
};

// Errors: kNotFound nothing listens there; kUnsupported something does, but it does not answer like a
// collector; kTruncated no whole answer in time, or interrupted; kIo anything else.
format::Result<std::vector<CollectedRun>> ask_collector(const CtlRequest& request);

// The probes that the request is about, as they were just before it reached them. kRejected: the collector's
// own words.
format::Result<std::vector<ConnectedProbe>> ask_probes(const CtlRequest& request);

}  // namespace tensortap::probe
