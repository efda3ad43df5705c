// Structural health of one stream, exactly as the specification has it (§3), in one pass: shown every record,
// it yields the issues in report order and the coverage counters. It holds the rules between records (§1.2)
// too: a stream that breaks one is unreadable for the format, whatever its health.
//
//   TraceHealth health;
//   ReadReport report = reader.read_all(health);
//   if (report.bad_lines != 0 || report.truncated) …unreadable: report.errors.front()…
//   if (Status status = health.stream_status(); !status) …unreadable: status.error()…
//   Health result = health.finish();
//
// Memory: bounded pages (format/paging) for spans, ids and the records that wait for their span's end; in
// memory stay ids without a number, live storages, and gradient keys by distinct prefix. Messages are made at
// the end, for at most `most_issues_per_code` issues of each code; counts are exact.
// Thread rules: one thread at a time. Not for the job's process.
#pragma once

#include <cstddef>
#include <memory>

#include "format/event.h"
#include "format/health/health.h"
#include "format/result.h"
#include "format/stream_rules.h"

namespace tensortap::format {

struct HealthOptions {
  std::size_t most_issues_per_code = 10000;
  // Memory records are judged in order of time (§3.2); the last 8192 are always put in order. True: all are
  // kept (on disk, 56 bytes each), so that any disorder is put in order. False: a record that comes later
  // than that, after a younger one of its storage was judged, is judged when it comes; `late_memory_records`
  // counts them.
  bool any_memory_order = true;
};

class TraceHealth final : public EventVisitor {
 public:
  explicit TraceHealth(HealthOptions options = {});
  ~TraceHealth() override;
  TraceHealth(TraceHealth&&) noexcept;
  TraceHealth& operator=(TraceHealth&&) noexcept;

  // The first violation of the rules between records so far, in the specification's order, as if the stream
  // ended here. `rules()` has all of them afterwards.
  Status stream_status();
  const StreamRules& rules() const;

  // Health as if the stream ended here. May be called more than once, also before the stream's end: a stream
  // without terminal counts as one that did not fail, one without meta has no issues about its meta. `meta`,
  // if given, counts instead of the stream's own (the daemon rewrites the contract at the end).
  Health finish(const Meta* meta = nullptr);

  std::uint64_t late_memory_records() const;

  void on_meta(const Meta&, const Place&) override;
  void on_span_start(const SpanStart&, const Place&) override;
  void on_span_end(const SpanEnd&, const Place&) override;
  void on_op(const Op&, const Place&) override;
  void on_tensor(const Tensor&, const Place&) override;
  void on_tensor_stats(const TensorStats&, const Place&) override;
  void on_memory(const Memory&, const Place&) override;
  void on_device_memory(const DeviceMemory&, const Place&) override;
  void on_device_interval(const DeviceInterval&, const Place&) override;
  void on_gradient(const Gradient&, const Place&) override;
  void on_edge(const Edge&, const Place&) override;
  void on_terminal(const Terminal&, const Place&) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::format
