// Where the host time went: by operator, module, range, step and thread.
//
// total: time inside the calls, calls nested in a call of the same name counted once. self: total without
// direct children (calls and spans). A module's or range's `cut` calls, which the end of the window closed,
// are counted but take no part in the times. Times are host wall time: for a device that works
// asynchronously, launch time.
//
// Memory: distinct names; 40 bytes per step. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "analyzers/analyzer.h"
#include "analyzers/timing/step_times.h"

namespace tensortap::analyzers {

class TimingAnalyzer : public Analyzer {
 public:
  explicit TimingAnalyzer(const CallTree& tree) : tree_(tree) {}
  std::string_view name() const override { return "timing"; }
  void on_span_start(const format::SpanStart& event, const format::Place& place) override;
  void on_operator(const OperatorCall& call) override;
  void on_became_top_level(NameId name, std::uint64_t thread, std::uint64_t duration_ns) override;
  void on_span_closed(const Span& span, bool outermost_step) override;
  void on_late_child(const Span& span, std::uint64_t self_shrinks_ns) override;
  boost::json::object report(const ReportContext& context) const override;

 private:
  struct Cost {
    std::uint64_t calls = 0;
    std::uint64_t cut = 0;        // spans only
    std::uint64_t top_level = 0;  // operators only
    std::uint64_t total_ns = 0;
    std::uint64_t self_ns = 0;
    std::uint64_t top_level_ns = 0;
    NameId type = kNoName;  // modules: the class
    bool autograd = false;  // ranges: nodes of the backward pass
  };
  using Costs = std::unordered_map<NameId, Cost>;
  struct Thread {
    std::uint64_t operators = 0, top_level = 0, busy_ns = 0;
  };
  struct Phase {
    std::uint64_t spans = 0, total_ns = 0;
  };

  static void count_top_level(Cost& cost, Thread& thread, std::uint64_t duration_ns);
  // The table that a span is summed up in; nothing for the root, the window and steps.
  Cost* cost_of(const Span& span);
  boost::json::object table(const Costs& costs, const ReportContext& context, bool modules) const;
  boost::json::object operator_table(const ReportContext& context) const;
  boost::json::object thread_table(const ReportContext& context) const;
  boost::json::object phases(const ReportContext& context) const;
  boost::json::object window() const;

  const CallTree& tree_;
  Costs operators_, modules_, ranges_;
  std::map<std::uint64_t, Thread> threads_;
  Phase phases_[3];  // forward, backward, optimizer: outermost spans
  StepTimes steps_;
  std::uint64_t operator_self_ns_ = 0;
  struct Window {
    std::uint64_t start_ns = 0;
    std::optional<std::uint64_t> duration_ns;
    bool cut = false;
  };
  std::optional<Window> window_;  // the first measured span
};

}  // namespace tensortap::analyzers
