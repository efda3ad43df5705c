// What the files of the session share (session.cpp, run.cpp, control.cpp). Internal to probe/core.
//
// One Session for each process. Its thread owns everything in it while it holds `lock`; exit's handler takes
// the lock for its goodbye. Never freed: the thread lives until the process ends.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>

#include "probe/core/capture_plan.h"
#include "probe/core/capture_state.h"
#include "probe/core/connection.h"
#include "probe/core/drain.h"
#include "probe/core/process_facts.h"
#include "probe/core/protocol_lines.h"
#include "probe/core/session.h"

namespace tensortap::probe {

inline constexpr std::uint64_t kMs = 1000000;

// What the process is doing, as `trace-ctl list` shows it.
enum class Phase : std::uint8_t {
  kIdle,       // nothing is in place in the job
  kWatching,   // steps are followed, operators are not: the capture's first step is far
  kReady,      // everything is in place, the run is announced, the window opens at the next border
  kCapturing,  // the window is open
  kClosing,    // the window is closed, the collector takes what is left
};

enum class Barriers : std::uint8_t { kUnknown, kNone, kReady };

struct Batch {
  std::uint64_t seq = 0;
  Cursors cursors;
};

struct Session {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  Observers observers;
  SessionSettings settings;
  std::string socket_path;
  std::string parent_run;
  ProcessFacts facts;
  std::atomic<bool> exiting{false};

  Connection connection;
  std::uint64_t retry_ns = 0, next_try_ns = 0;
  bool refused = false;   // by a collector, or by a lack of memory: for good
  bool late = false;      // there was a time without a capture that was wanted
  bool reported = false;  // the collector knows us as idle

  Phase phase = Phase::kIdle;
  CaptureOrder order;        // of the capture that is open, or wanted once there is a collector
  double counted_share = 0;  // always-on between captures; 0 = not
  bool counting = false;     // in place
  std::uint64_t counted_ns = 0, counting_since_ns = 0, last_counts_ns = 0;
  bool wanted = false;       // `order` waits for a collector
  bool after_start = false;  // the job was running when the order came
  std::uint64_t ready_ns = 0;
  std::uint64_t steps_looked_at = 0;  // the number of the step at the last look (kWatching)
  bool operators_in_place = false, steps_in_place = false;
  Barriers barriers = Barriers::kUnknown;  // the session's thread only

  std::string error;  // why the last order was not obeyed

  // The run. `capture` stays for the next one.
  bool block_when_full = false;
  CaptureState* capture = nullptr;
  CaptureState* spare = nullptr;
  Drain* drain = nullptr;
  RingProducer control;    // ring 0
  bool announced = false;  // hello named the run and handed the memory over
  bool finished = false;   // the terminal is in ring 0
  bool quiet = true;       // no thread was inside a callback when the window was closed
  std::deque<Batch> unacknowledged;
  std::uint64_t batch_seq = 0;
  std::uint64_t last_flush_ns = 0, last_sample_ns = 0, last_busy_ns = 0, last_repatch_ns = 0,
                last_state_ns = 0;
  std::uint64_t closing_ns = 0;
  std::uint32_t group_seen = 0;     // process_group.h: the version that `facts` have
  std::uint64_t sampled_at_ns = 0;  // the last memory sample, in the capture's time
  std::uint64_t memory_limit = 0;
  std::string text;
};

bool is_exiting(void* session);
// As trace-ctl list shows it.
const char* state_name(const Session& session) noexcept;

// ---- run.cpp: one run, from its memory to its terminal ----

// Memory for a run, threads not yet following. False: there is none, and there will be none.
bool prepare_run(Session& session);
// Names the run to the collector and hands the memory over.
bool announce_run(Session& session);
// The job has made its process group, or it was found: told in the run that is open, else with the next
// hello.
void follow_process_group(Session& session);
void open_run_now(Session& session);
// The job is following its steps: has one of them opened the window, or closed it, or is it time for either?
void follow_plan(Session& session, std::uint64_t now);
// Closes the window and writes the terminal. `exit_status`: null when the job goes on.
void close_run(Session& session, const int* exit_status);
// It ends here, unwritten: nobody wants it. The connection stays.
void abandon_run(Session& session);
// The collector does not want it, or does not know it any more.
void give_up_run(Session& session);
// It is with the collector: what it held is given back, the process is idle.
void end_run(Session& session);
// Names the run again to a collector that may have it, and goes on where its file ends. False: not now.
bool resume_run(Session& session);
void flush_run(Session& session);
void acknowledge_run(Session& session, std::uint64_t seq);

// ---- control.cpp: what the collector says, and what it is told of us ----

// Deals with what came. False: the connection is over.
bool hear(Session& session);
// Begins what was ordered. False with a reason for the user when it can't.
bool obey(Session& session, const CaptureOrder& order, std::string& why_not);
// Always-on: in place while no capture is, and sent every few seconds.
void follow_counting(Session& session, std::uint64_t now);
void send_state(Session& session);
void sample_memory(Session& session, std::uint64_t now) noexcept;

}  // namespace tensortap::probe
