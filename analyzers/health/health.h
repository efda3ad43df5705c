// Is the trace sound, how did the run end, and what was not seen.
//
// The structural problems are those of format's TraceHealth (all codes of the trace/10 specification, §3.2,
// and the rules between records, §1.2), by code: how many, and the first record at fault. With their messages
// `trace-analyze validate` lists them one by one. Two codes are ours: timestamp_zero, timestamp_far_future.
//
// Memory: that of TraceHealth; memory records that come very late are judged when they come (see there).
// Thread rules: one thread at a time.
#pragma once

#include <array>
#include <cstdint>

#include "analyzers/analyzer.h"
#include "format/health/trace_health.h"

namespace tensortap::analyzers {

class HealthAnalyzer : public Analyzer {
 public:
  static constexpr std::size_t kMostOpenListed = 50;

  explicit HealthAnalyzer(const CallTree& tree) : tree_(tree) {}
  std::string_view name() const override { return "health"; }
  bool judges_stream() const override { return true; }

  void on_meta(const format::Meta& event, const format::Place& place) override;
  void on_span_start(const format::SpanStart& event, const format::Place& place) override;
  void on_span_end(const format::SpanEnd& event, const format::Place& place) override;
  void on_op(const format::Op& event, const format::Place& place) override;
  void on_tensor(const format::Tensor& event, const format::Place& place) override;
  void on_tensor_stats(const format::TensorStats& event, const format::Place& place) override;
  void on_memory(const format::Memory& event, const format::Place& place) override;
  void on_device_memory(const format::DeviceMemory& event, const format::Place& place) override;
  void on_device_interval(const format::DeviceInterval& event, const format::Place& place) override;
  void on_gradient(const format::Gradient& event, const format::Place& place) override;
  void on_edge(const format::Edge& event, const format::Place& place) override;
  void on_terminal(const format::Terminal& event, const format::Place& place) override;
  boost::json::object report(const ReportContext& context) const override;

 private:
  enum Kind {
    kMeta,
    kSpanStart,
    kSpanEnd,
    kOp,
    kTensor,
    kTensorStats,
    kMemory,
    kDeviceMemory,
    kDeviceInterval,
    kGradient,
    kEdge,
    kTerminal,
    kKinds
  };
  template <class Event>
  void show(Kind kind, void (format::EventVisitor::*function)(const Event&, const format::Place&),
            const Event& event, const format::Place& place) {
    ++records_[kind];
    (health_.*function)(event, place);
  }

  boost::json::array issue_list(const format::Health& health) const;
  boost::json::array open_list() const;
  boost::json::object not_seen(const ReportContext& context) const;

  const CallTree& tree_;
  std::array<std::uint64_t, kKinds> records_{};
  // Asking it for a result puts its tables in order.
  mutable format::TraceHealth health_{format::HealthOptions{0, false}};
};

}  // namespace tensortap::analyzers
