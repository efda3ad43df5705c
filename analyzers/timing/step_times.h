// Durations of the job's iterations (`step-000000000042`): statistics, breakdown, and a list.
//
// Only complete steps count: not those that the end of the window cut, nor those still open. Memory: 40 bytes
// a step. Thread rules: one thread at a time.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <vector>

#include "analyzers/calls/call_tree.h"
#include "analyzers/report_context.h"

namespace tensortap::analyzers {

class StepTimes {
 public:
  static constexpr std::size_t kMostListed = 1000;
  static constexpr std::size_t kMostSlow = 5;  // named as the slowest

  void add(const Span& iteration);
  boost::json::object report(const ReportContext& context, std::uint64_t open) const;

 private:
  struct Step {
    std::uint64_t number, start_ns, duration_ns;
    std::uint64_t part_ns[3];  // forward, backward, optimizer
    std::uint64_t other_ns() const;
  };
  std::vector<Step> steps_;
  std::uint64_t cut_ = 0;
};

}  // namespace tensortap::analyzers
