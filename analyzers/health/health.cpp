#include "analyzers/health/health.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <optional>

#include "analyzers/health/explanations.h"
#include "analyzers/run_header.h"

namespace tensortap::analyzers {
namespace {

const char* kind_name(format::SpanKind kind) {
  switch (kind) {
    case format::SpanKind::kFunction:
      return "function";
    case format::SpanKind::kOp:
      return "op";
    case format::SpanKind::kModule:
      return "module";
  }
  return "?";
}

}  // namespace

void HealthAnalyzer::on_meta(const format::Meta& event, const format::Place& place) {
  show(kMeta, &EventVisitor::on_meta, event, place);
}
void HealthAnalyzer::on_span_start(const format::SpanStart& event, const format::Place& place) {
  show(kSpanStart, &EventVisitor::on_span_start, event, place);
}
void HealthAnalyzer::on_span_end(const format::SpanEnd& event, const format::Place& place) {
  show(kSpanEnd, &EventVisitor::on_span_end, event, place);
}
void HealthAnalyzer::on_op(const format::Op& event, const format::Place& place) {
  show(kOp, &EventVisitor::on_op, event, place);
}
void HealthAnalyzer::on_tensor(const format::Tensor& event, const format::Place& place) {
  show(kTensor, &EventVisitor::on_tensor, event, place);
}
void HealthAnalyzer::on_tensor_stats(const format::TensorStats& event, const format::Place& place) {
  show(kTensorStats, &EventVisitor::on_tensor_stats, event, place);
}
void HealthAnalyzer::on_memory(const format::Memory& event, const format::Place& place) {
  show(kMemory, &EventVisitor::on_memory, event, place);
}
void HealthAnalyzer::on_device_memory(const format::DeviceMemory& event, const format::Place& place) {
  show(kDeviceMemory, &EventVisitor::on_device_memory, event, place);
}
void HealthAnalyzer::on_device_interval(const format::DeviceInterval& event, const format::Place& place) {
  show(kDeviceInterval, &EventVisitor::on_device_interval, event, place);
}
void HealthAnalyzer::on_gradient(const format::Gradient& event, const format::Place& place) {
  show(kGradient, &EventVisitor::on_gradient, event, place);
}
void HealthAnalyzer::on_edge(const format::Edge& event, const format::Place& place) {
  show(kEdge, &EventVisitor::on_edge, event, place);
}
void HealthAnalyzer::on_terminal(const format::Terminal& event, const format::Place& place) {
  show(kTerminal, &EventVisitor::on_terminal, event, place);
}

boost::json::array HealthAnalyzer::issue_list(const format::Health& health) const {
  boost::json::array out;
  const auto add = [&](std::string_view code, bool error, std::uint64_t count,
                       const std::optional<format::Place>& first) {
    if (count == 0) return;
    boost::json::object row{{"code", code}, {"severity", error ? "error" : "warning"}, {"count", count}};
    if (first) row["first_record"] = first->index;
    row["message"] = explain_issue(code).text;
    out.push_back(std::move(row));
  };
  const auto& rules = health_.rules().totals();
  for (const auto& total : rules) add(total.name, true, total.count, total.first);
  for (const format::HealthTotal& total : health.totals) {
    const auto same = [&](const auto& rule) { return rule.name == total.code; };
    if (std::any_of(rules.begin(), rules.end(), same)) continue;
    add(total.code, total.errors != 0, total.errors + total.warnings, total.first);
  }
  add("timestamp_zero", false, tree_.time_axis().zero(), std::nullopt);
  add("timestamp_far_future", false, tree_.time_axis().far_future(), std::nullopt);
  return out;
}

boost::json::array HealthAnalyzer::open_list() const {
  boost::json::array out;
  for (const Span* span : tree_.open_spans()) {
    if (out.size() == kMostOpenListed) break;
    out.push_back({{"id", span->id},
                   {"name", tree_.names().text(span->name)},
                   {"kind", kind_name(span->kind)},
                   {"start", span->start_ns}});
  }
  return out;
}

boost::json::object HealthAnalyzer::not_seen(const ReportContext& context) const {
  boost::json::object out;
  boost::json::array rows;
  const auto add = [&](std::string_view code, std::uint64_t count, std::string_view text) {
    rows.push_back({{"code", code}, {"count", count}, {"message", text}});
  };
  for (const auto& member : context.diagnostics) {
    const std::uint64_t count = count_of(member.value());
    const Explanation explanation = explain_diagnostic(member.key());
    if (count != 0 && !explanation.is_fact) add(member.key(), count, explanation.text);
  }
  if (const auto* dropped = context.ledger.if_contains("dropped"); dropped && dropped->is_object()) {
    for (const auto& cause : dropped->get_object()) {
      const std::uint64_t count = count_of(cause.value());
      if (count != 0) add(cause.key(), count, explain_drop(cause.key()));
    }
  }
  out["items"] = std::move(rows);
  if (!context.ledger.empty()) out["ledger"] = context.ledger;
  return out;
}

boost::json::object HealthAnalyzer::report(const ReportContext& context) const {
  static constexpr const char* kNames[kKinds] = {
      "meta",   "span_start",    "span_end",        "op",       "tensor", "tensor_stats",
      "memory", "device_memory", "device_interval", "gradient", "edge",   "terminal"};
  boost::json::object records;
  for (int kind = 0; kind < kKinds; ++kind) records[kNames[kind]] = records_[kind];
  (void)health_.stream_status();  // brings the rules' totals up to date
  const format::Health health = health_.finish(context.meta);
  boost::json::array issues = issue_list(health);
  bool sound = true;
  for (const auto& issue : issues) sound = sound && issue.as_object().at("severity") != "error";

  boost::json::object out;
  out["no_errors_found"] = sound;
  out["checks"] = "all of trace/10 §1.2 and §3.2";
  out["records"] = std::move(records);
  out["open_spans"] = tree_.totals().open;
  out["issues"] = std::move(issues);
  out["open"] = open_list();
  out["not_seen"] = not_seen(context);
  if (const std::uint64_t late = health_.late_memory_records()) out["late_memory_records"] = late;
  return out;
}

}  // namespace tensortap::analyzers
