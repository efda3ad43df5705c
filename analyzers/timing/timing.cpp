#include "analyzers/timing/timing.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <vector>

namespace tensortap::analyzers {
namespace {

constexpr std::string_view kTotalMethod =
    "host time inside the calls; nested calls of the same name counted once";
constexpr std::string_view kSelfMethod = "duration without the union of direct children";

void shrink(std::uint64_t& value, std::uint64_t by) { value -= std::min(value, by); }

template <class Map>
auto sorted_by_self(const Map& costs, const NameTable& names) {
  std::vector<const typename Map::value_type*> sorted;
  for (const auto& entry : costs) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    if (a->second.self_ns != b->second.self_ns) return a->second.self_ns > b->second.self_ns;
    return names.text(a->first) < names.text(b->first);
  });
  return sorted;
}

}  // namespace

void TimingAnalyzer::on_span_start(const format::SpanStart& event, const format::Place&) {
  if (event.measured && !window_) window_ = Window{event.start_ns, std::nullopt, false};
}

void TimingAnalyzer::on_operator(const OperatorCall& call) {
  Cost& cost = operators_[call.name];
  ++cost.calls;
  if (!call.recursive) cost.total_ns = saturating_add(cost.total_ns, call.duration_ns);
  cost.self_ns = saturating_add(cost.self_ns, call.self_ns);
  operator_self_ns_ = saturating_add(operator_self_ns_, call.self_ns);
  Thread& thread = threads_[call.thread];
  ++thread.operators;
  if (call.top_level) count_top_level(cost, thread, call.duration_ns);
}

void TimingAnalyzer::count_top_level(Cost& cost, Thread& thread, std::uint64_t duration_ns) {
  ++cost.top_level;
  cost.top_level_ns = saturating_add(cost.top_level_ns, duration_ns);
  ++thread.top_level;
  thread.busy_ns = saturating_add(thread.busy_ns, duration_ns);
}

void TimingAnalyzer::on_became_top_level(NameId name, std::uint64_t thread, std::uint64_t duration_ns) {
  count_top_level(operators_[name], threads_[thread], duration_ns);
}

TimingAnalyzer::Cost* TimingAnalyzer::cost_of(const Span& span) {
  if (span.kind == format::SpanKind::kModule) return &modules_[span.name];
  if (span.kind == format::SpanKind::kOp || span.measured || !span.has_parent_id || span.iteration)
    return nullptr;
  return &ranges_[span.name];
}

void TimingAnalyzer::on_span_closed(const Span& span, bool outermost_step) {
  if (span.measured && window_ && !window_->duration_ns && window_->start_ns == span.start_ns) {
    window_->duration_ns = span.duration_ns;
    window_->cut = span.cut;
  }
  if (outermost_step && !span.cut) {
    Phase& phase = phases_[static_cast<std::size_t>(*span.step)];
    ++phase.spans;
    phase.total_ns = saturating_add(phase.total_ns, span.duration_ns);
  }
  if (span.iteration) steps_.add(span);
  Cost* cost = cost_of(span);
  if (!cost) return;
  cost->autograd = span.autograd;
  if (span.type != kNoName) cost->type = span.type;
  ++cost->calls;
  if (span.cut) {
    ++cost->cut;
    return;
  }
  const bool nested = tree_.is_inside(tree_.parent_of(span), span.kind, span.name);
  if (!nested) cost->total_ns = saturating_add(cost->total_ns, span.duration_ns);
  cost->self_ns = saturating_add(cost->self_ns, span.self_ns());
}

void TimingAnalyzer::on_late_child(const Span& span, std::uint64_t self_shrinks_ns) {
  if (span.kind == format::SpanKind::kOp) {
    if (!span.has_own_op) return;
    const auto found = operators_.find(span.name);
    if (found != operators_.end()) shrink(found->second.self_ns, self_shrinks_ns);
    shrink(operator_self_ns_, self_shrinks_ns);
  } else if (Cost* cost = span.cut ? nullptr : cost_of(span)) {
    shrink(cost->self_ns, self_shrinks_ns);
  }
}

boost::json::object TimingAnalyzer::operator_table(const ReportContext& context) const {
  FigureStatus status = context.status(context.contract().operations, tree_.totals().operators);
  if (tree_.totals().unattributed_operators + tree_.totals().waiting_operators +
          tree_.totals().late_children !=
      0) {
    status = weaker(status, FigureStatus::kPartial);
  }
  boost::json::array rows;
  for (const auto* entry : sorted_by_self(operators_, tree_.names())) {
    const Cost& cost = entry->second;
    rows.push_back({{"name", tree_.names().text(entry->first)},
                    {"calls", cost.calls},
                    {"top_level", cost.top_level},
                    {"total", cost.total_ns},
                    {"self", cost.self_ns},
                    {"top_level_total", cost.top_level_ns}});
  }
  return {{"total_self",
           figure(operator_self_ns_, Unit::kNanoseconds, "all threads", "sum of self times", status)},
          {"columns",
           {{"calls", column(Unit::kCount, "all threads", "finished calls", status)},
            {"top_level",
             column(Unit::kCount, "all threads", "calls that no other operator's call encloses", status)},
            {"total", column(Unit::kNanoseconds, "all threads", kTotalMethod, status)},
            {"self", column(Unit::kNanoseconds, "all threads", kSelfMethod, status)},
            {"top_level_total",
             column(Unit::kNanoseconds, "all threads", "durations of the top-level calls", status)}}},
          {"rows", std::move(rows)}};
}

boost::json::object TimingAnalyzer::table(const Costs& costs, const ReportContext& context,
                                          bool modules) const {
  FigureStatus status = context.span_status(costs.size());
  if (tree_.totals().late_children != 0) status = weaker(status, FigureStatus::kPartial);
  boost::json::array rows;
  for (const auto* entry : sorted_by_self(costs, tree_.names())) {
    const Cost& cost = entry->second;
    boost::json::object row{{"name", tree_.names().text(entry->first)},
                            {"calls", cost.calls},
                            {"cut", cost.cut},
                            {"total", cost.total_ns},
                            {"self", cost.self_ns}};
    if (modules && cost.type != kNoName) row["type"] = tree_.names().text(cost.type);
    if (!modules) row["autograd"] = cost.autograd;
    rows.push_back(std::move(row));
  }
  return {{"columns",
           {{"calls", column(Unit::kCount, "all threads", "ended spans", status)},
            {"cut", column(Unit::kCount, "all threads", "of them, closed by the end of the window: not timed",
                           status)},
            {"total", column(Unit::kNanoseconds, "all threads", kTotalMethod, status)},
            {"self", column(Unit::kNanoseconds, "all threads", kSelfMethod, status)}}},
          {"rows", std::move(rows)}};
}

boost::json::object TimingAnalyzer::thread_table(const ReportContext& context) const {
  const FigureStatus status = context.status(context.contract().operations, tree_.totals().operators);
  boost::json::array rows;
  for (const auto& [number, thread] : threads_) {
    boost::json::object row;
    // Traces of other producers do not say which thread.
    if (number == 0)
      row["thread"] = nullptr;
    else
      row["thread"] = number;
    row["operators"] = thread.operators;
    row["top_level"] = thread.top_level;
    row["busy"] = thread.busy_ns;
    rows.push_back(std::move(row));
  }
  return {
      {"columns",
       {{"operators", column(Unit::kCount, "thread", "finished calls", status)},
        {"top_level", column(Unit::kCount, "thread", "calls that no other operator's call encloses", status)},
        {"busy", column(Unit::kNanoseconds, "thread", "durations of the top-level calls", status)}}},
      {"rows", std::move(rows)}};
}

boost::json::object TimingAnalyzer::phases(const ReportContext& context) const {
  static constexpr const char* kNames[] = {"forward", "backward", "optimizer"};
  boost::json::object out;
  for (int i = 0; i < 3; ++i) {
    const FigureStatus status = context.span_status(phases_[i].spans);
    out[kNames[i]] = {{"spans", figure(phases_[i].spans, Unit::kCount, "all threads",
                                       "outermost spans of this step kind", status)},
                      {"total", figure(phases_[i].total_ns, Unit::kNanoseconds, "all threads",
                                       "sum of their durations", status)}};
  }
  return out;
}

boost::json::object TimingAnalyzer::window() const {
  constexpr std::string_view kScope = "measured region";
  if (!window_)
    return figure(0, Unit::kNanoseconds, kScope, "no span is measured", FigureStatus::kUnavailable);
  if (window_->duration_ns) {  // exact, whatever else the trace lacks
    return figure(*window_->duration_ns, Unit::kNanoseconds, kScope, "duration of the measured span",
                  FigureStatus::kComplete);
  }
  const std::uint64_t latest = tree_.time_axis().latest_ns();
  return figure(latest - std::min(latest, window_->start_ns), Unit::kNanoseconds, kScope,
                "the measured span never ended: from its start to the last event", FigureStatus::kPartial);
}

boost::json::object TimingAnalyzer::report(const ReportContext& context) const {
  std::uint64_t open_steps = 0;
  for (const Span* span : tree_.open_spans()) open_steps += span->iteration ? 1 : 0;
  boost::json::object out;
  out["duration"] = window();
  out["steps"] = steps_.report(context, open_steps);
  out["phases"] = phases(context);
  out["operators"] = operator_table(context);
  out["modules"] = table(modules_, context, true);
  out["ranges"] = table(ranges_, context, false);
  out["threads"] = thread_table(context);
  return out;
}

}  // namespace tensortap::analyzers
