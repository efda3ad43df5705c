#include "collector/metrics.h"

namespace tensortap::collector {

void Metrics::count_refusal(const std::string& cause) {
  const std::lock_guard guard(mutex_);
  ++refusals_[cause];
}

void Metrics::add_ledger(const Ledger& ledger) {
  const std::lock_guard guard(mutex_);
  offered_ += ledger.offered;
  stored_ += ledger.stored;
  for (const auto& [cause, count] : ledger.dropped) {
    // What a plain producer says of itself has words of its own: no growth from them.
    dropped_[stage_of(cause) == "producer" ? "producer" : cause] += count;
  }
  if (ledger.unknown_tail_bytes_max != std::uint64_t{0}) ++unknown_tails_;
}

Metrics::Snapshot Metrics::snapshot() const {
  Snapshot now;
  now.connections_accepted = connections_accepted;
  now.bytes_received = bytes_received;
  now.lines_received = lines_received;
  now.lines_written = lines_written;
  now.bytes_written = bytes_written;
  now.frames_written = frames_written;
  now.syncs = syncs;
  now.disk_waits = disk_waits;
  now.memory_waits = memory_waits;
  now.rate_waits = rate_waits;
  now.hung_up = hung_up;
  now.runs_begun = runs_begun;
  now.runs_complete = runs_complete;
  now.runs_failed = runs_failed;
  now.runs_removed = runs_removed;
  now.bytes_removed = bytes_removed;
  const std::lock_guard guard(mutex_);
  now.refusals = refusals_;
  now.records_offered = offered_;
  now.records_stored = stored_;
  now.records_dropped = dropped_;
  now.runs_with_unknown_tail = unknown_tails_;
  return now;
}

}  // namespace tensortap::collector
