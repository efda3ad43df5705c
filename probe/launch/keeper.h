// The keeper: a small process between trace-run and a private collector. It starts the collector, outlives
// trace-run, and ends the collector when the launch is over, however trace-run ends: by itself, by `kill -9`,
// or by becoming the job
// (--exec; the pid it watches is then the job's).
//
//   trace-run ── fork ──> keeper (own session) ── fork, exec ──> collectord (private socket)
//        │                  │ watches: trace-run's pidfd, the control socket, the collector's pidfd
//        └─ control socket ─┘ ready/failed →   ← stop/linger   done →
//
// Thread rules: `keep_collector` runs in a freshly forked, single-threaded process and never returns.
#pragma once

#include <string>

namespace tensortap::probe {

// What travels over the control socket, one byte each.
enum class KeeperWord : char {
  kReady = 'R',   // the collector answers
  kFailed = 'F',  // it does not; its log says why
  kStop = 'S',    // end the collector now
  kLinger = 'L',  // end it when no process of the launch lives and no run is open
  kDone = 'D',    // it ended, the private folder is gone
};

struct KeeperPlan {
  std::string collectord;  // program
  std::string folder;      // private, removed at the end
  std::string state;
  std::string log;     // of the collector; removed at the end when it ended well
  std::string launch;  // token
  int log_fd = -1;
  int owner_pidfd = -1;  // trace-run (or the job that it becomes)
  int job_pidfd = -1;    // of a job that was attached to, which has no token in its environment; -1 none
  int control_fd = -1;
};

[[noreturn]] void keep_collector(const KeeperPlan& plan);

}  // namespace tensortap::probe
