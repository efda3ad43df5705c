#include "analyzers/timing/step_times.h"

#include <algorithm>
#include <boost/json/array.hpp>

namespace tensortap::analyzers {
namespace {

constexpr std::string_view kScope = "complete steps";
constexpr const char* kPartNames[] = {"forward", "backward", "optimizer"};

}  // namespace

std::uint64_t StepTimes::Step::other_ns() const {
  const std::uint64_t parts = saturating_add(saturating_add(part_ns[0], part_ns[1]), part_ns[2]);
  return duration_ns - std::min(duration_ns, parts);
}

void StepTimes::add(const Span& iteration) {
  if (iteration.cut) {
    ++cut_;
    return;
  }
  steps_.push_back({iteration.step_number,
                    iteration.start_ns,
                    iteration.duration_ns,
                    {iteration.step_ns[0], iteration.step_ns[1], iteration.step_ns[2]}});
}

boost::json::object StepTimes::report(const ReportContext& context, std::uint64_t open) const {
  std::vector<Step> steps = steps_;
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return a.number != b.number ? a.number < b.number : a.start_ns < b.start_ns;
  });
  std::vector<std::uint64_t> sorted;
  std::uint64_t total = 0, parts[3] = {0, 0, 0}, other = 0;
  for (const Step& step : steps) {
    sorted.push_back(step.duration_ns);
    total = saturating_add(total, step.duration_ns);
    for (int i = 0; i < 3; ++i) parts[i] = saturating_add(parts[i], step.part_ns[i]);
    other = saturating_add(other, step.other_ns());
  }
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const FigureStatus status = context.span_status(n);
  const auto time = [&](std::uint64_t value, std::string_view method) {
    return figure(value, Unit::kNanoseconds, kScope, method, status);
  };

  boost::json::object out;
  out["complete"] = figure(n, Unit::kCount, "window", "step spans that ended by themselves", status);
  out["cut"] = figure(cut_, Unit::kCount, "window", "step spans that the end of the window closed",
                      context.span_status(n + cut_ + open));
  out["open"] = figure(open, Unit::kCount, "window", "step spans that never ended",
                       context.span_status(n + cut_ + open));
  out["min"] = time(n ? sorted.front() : 0, "least duration");
  // The middle one; of two, their mean, rounded down (added without overflow).
  const std::uint64_t low = n ? sorted[(n - 1) / 2] : 0;
  out["median"] =
      time(n ? low + (sorted[n / 2] - low) / 2 : 0, "middle duration; of two, their mean rounded down");
  out["mean"] = time(n ? total / n : 0, "total / count, rounded down");
  out["max"] = time(n ? sorted.back() : 0, "greatest duration");
  out["total"] = time(total, "sum of durations");
  for (int i = 0; i < 3; ++i)
    out[kPartNames[i]] = time(parts[i], "outermost spans of this step kind inside the steps, same thread");
  out["other"] = time(other, "duration without forward, backward and optimizer");

  const auto row = [](const Step& step) {
    return boost::json::object{{"number", step.number},        {"start", step.start_ns},
                               {"duration", step.duration_ns}, {"forward", step.part_ns[0]},
                               {"backward", step.part_ns[1]},  {"optimizer", step.part_ns[2]},
                               {"other", step.other_ns()}};
  };
  boost::json::array rows, slowest;
  for (std::size_t i = 0; i < steps.size() && i < kMostListed; ++i) rows.push_back(row(steps[i]));
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.duration_ns > b.duration_ns; });
  for (std::size_t i = 0; i < steps.size() && i < kMostSlow; ++i) slowest.push_back(row(steps[i]));
  const boost::json::object nanoseconds = column(Unit::kNanoseconds, "step", "span durations", status);
  out["list"] = {{"columns",
                  {{"start", nanoseconds},
                   {"duration", nanoseconds},
                   {"forward", nanoseconds},
                   {"backward", nanoseconds},
                   {"optimizer", nanoseconds},
                   {"other", nanoseconds}}},
                 {"not_listed", n - rows.size()},
                 {"rows", std::move(rows)},
                 {"slowest", std::move(slowest)}};
  return out;
}

}  // namespace tensortap::analyzers
