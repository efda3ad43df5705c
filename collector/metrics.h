// What the daemon counts of itself, for whoever exports it.
//
//   metrics.lines_received += n;
//   metrics.count_refusal("quota_runs");
//   Metrics::Snapshot now = metrics.snapshot();       // plain values, from any thread
//
// The ledger's totals are of runs that are finished; those of open runs are in Store::list().
// Thread rules: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "collector/ledger.h"

namespace tensortap::collector {

class Metrics {
 public:
  using Counter = std::atomic<std::uint64_t>;

  Counter connections_accepted{0};
  Counter bytes_received{0};  // from producers
  Counter lines_received{0};  // of records
  Counter lines_written{0};
  Counter bytes_written{0};  // compressed, to trace files
  Counter frames_written{0};
  Counter syncs{0};
  Counter disk_waits{0};    // writes that were refused and tried again
  Counter memory_waits{0};  // times a sender had to wait for memory
  Counter rate_waits{0};    // times a sender had to wait for its user's rate
  Counter hung_up{0};       // connections that were cut because they held memory too long
  Counter runs_begun{0};
  Counter runs_complete{0}, runs_failed{0};
  Counter runs_removed{0}, bytes_removed{0};  // by retention

  // Of a connection, an order or a run; `cause` is one of a fixed set of words.
  void count_refusal(const std::string& cause);
  void add_ledger(const Ledger& ledger);

  struct Snapshot {
    std::uint64_t connections_accepted = 0, bytes_received = 0, lines_received = 0, lines_written = 0,
                  bytes_written = 0, frames_written = 0, syncs = 0, disk_waits = 0, memory_waits = 0,
                  rate_waits = 0, hung_up = 0, runs_begun = 0, runs_complete = 0, runs_failed = 0,
                  runs_removed = 0, bytes_removed = 0;
    Counts refusals;                                        // cause → times
    std::uint64_t records_offered = 0, records_stored = 0;  // finished runs; records and lines together
    Counts records_dropped;                                 // cause → count; stage_of() says the stage
    std::uint64_t runs_with_unknown_tail = 0;
  };
  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  Counts refusals_;
  std::uint64_t offered_ = 0, stored_ = 0, unknown_tails_ = 0;
  Counts dropped_;
};

}  // namespace tensortap::collector
