// What is done for a run now and then while it goes on: made durable, counted, saved, reported.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "collector/limits.h"
#include "collector/run.h"

namespace tensortap::collector {

using format::Status;

void Run::make_durable() {
  if (is_durable(Durability::kFrame)) {
    sync();
  } else if (is_durable(Durability::kSecond) && !sync_deadline_) {
    sync_deadline_ = Clock::now() + kSyncInterval;
  }
}

void Run::sync() {
  sync_deadline_.reset();
  if (!writer_) return;
  ++around_.metrics.syncs;
  Status status = writer_->sync();
  if (status) return;
  // What the kernel could not write it may have thrown away: nobody knows what is on the medium, and a later
  // success would say nothing about it.
  count("sync_failed");
  if (is_durable(Durability::kSecond)) {
    stop_writing("write_failed",
                 "the collector could not make the trace durable: " + status.error().to_string());
  } else {
    spdlog::error("run {}: {}", info_.run, status.error().to_string());
  }
}

// Its file in the account of its user.
void Run::account_stored() {
  const std::uint64_t bytes = writer_ ? writer_->stored_bytes() : 0;
  around_.account->stored_bytes += bytes - accounted_bytes_;  // wraps around when it became less
  if (bytes > accounted_bytes_) around_.metrics.bytes_written += bytes - accounted_bytes_;
  accounted_bytes_ = bytes;
}

void Run::suspend() {
  info_.ledger = ledger(false);
  if (Status status = write_run_json(info_); !status) {
    spdlog::error("run {}: {}", info_.run, status.error().to_string());
  }
}

// A report of a large run takes its time: it is made as often as costs a twentieth of a core.
void Run::report() {
  const auto begin = Clock::now();
  report_deadline_.reset();
  if (!writer_ || write_failed()) return;
  analyze();
  suspend();
  write_reports();
  const auto took = Clock::now() - begin;
  earliest_report_ = Clock::now() + std::max<Clock::duration>(around_.settings.report_every, 20 * took);
}

void Run::plan_report() {
  const auto every = around_.settings.report_every;
  if (report_deadline_ || every.count() == 0 || !around_.settings.analyze) return;
  report_deadline_ = std::max(earliest_report_, Clock::now() + Clock::duration(every));
}

}  // namespace tensortap::collector
