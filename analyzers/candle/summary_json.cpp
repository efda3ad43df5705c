// candle-graph/summary/6 (trace/10 specification §5.8).
#include "analyzers/candle/document_parts.h"
#include "analyzers/candle/documents.h"
#include "analyzers/candle/plane_json.h"

namespace tensortap::analyzers::candle {
namespace {

void write_coverage(JsonOut& json, const format::HealthCoverage& seen) {
  json.begin_object();
  json.member("backward_spans", seen.backward_spans);
  json.member("call_edges", seen.call_edges);
  json.member("closed_spans", seen.closed_spans);
  json.member("data_edges", seen.data_edges);
  json.member("device_intervals", seen.device_intervals);
  json.member("device_memory_samples", seen.device_memory_samples);
  json.member("forward_spans", seen.forward_spans);
  json.member("gradients", seen.gradients);
  json.member("measured_spans", seen.measured_spans);
  json.member("memory_events", seen.memory_events);
  json.member("operations", seen.operations);
  json.member("optimizer_spans", seen.optimizer_spans);
  json.member("root_spans", seen.root_spans);
  json.member("spans", seen.spans);
  json.member("tensors", seen.tensors);
  json.end_object();
}

void write_health(JsonOut& json, const format::Health& health) {
  json.begin_object();
  json.member("capture_complete", health.capture_complete);
  json.key("coverage");
  write_coverage(json, health.coverage);
  json.key("issues");
  json.begin_array();
  for (const format::HealthIssue& issue : health.issues) {
    json.begin_object();
    json.member("code", issue.code);
    json.member("message", issue.message);
    json.member("severity", format::severity_name(issue.severity));
    json.end_object();
  }
  json.end_array();
  json.member("structurally_valid", health.structurally_valid);
  json.end_object();
}

std::string span_name(const Evidence& evidence, std::uint32_t span) {
  return evidence.tables().labels.text(evidence.spans()[span].name);
}

void write_graph_summary(JsonOut& json, const Evidence& evidence) {
  if (!evidence.graph()) return json.null();
  const GraphSummary& graph = *evidence.graph();
  const TraceTables& tables = evidence.tables();
  json.begin_object();
  json.member("entrypoint", evidence.meta().entrypoint);
  json.key("heaviest_spans");
  json.begin_array();
  for (const HeavySpan& span : graph.heaviest) {
    json.begin_object();
    json.member("allocated_bytes", span.allocated_bytes);
    json.member("id", tables.spans.text(span.span));
    json.member("name", span_name(evidence, span.span));
    json.member("peak_live_bytes", span.peak_live_bytes);
    json.end_object();
  }
  json.end_array();
  json.member("outer_wall_time_ns", graph.outer_wall_time_ns);
  json.key("slowest_device_spans");
  json.begin_array();
  for (const DeviceTiming::SpanRow& row : graph.slowest_device) {
    json.begin_object();
    json.member("clock_id", tables.names.text(row.clock));
    json.member("device", tables.names.text(row.device));
    json.member("device_busy_ns", row.busy_ns);
    json.member("id", tables.spans.text(row.span));
    json.member("name", span_name(evidence, row.span));
    json.end_object();
  }
  json.end_array();
  json.key("slowest_host_spans");
  json.begin_array();
  for (const HostSpan& span : graph.slowest_host) write_host_span(json, evidence, span);
  json.end_array();
  json.end_object();
}

}  // namespace

void write_summary(JsonOut& json, const Evidence& evidence, const DocumentInput& input) {
  json.begin_object();
  json.key("activations");
  write_activations(json, evidence);
  json.key("capabilities");
  write_capabilities(json, evidence.capabilities());
  json.key("findings");
  json.begin_array();
  for (const Finding& finding : evidence.findings()) write_finding(json, finding);
  json.end_array();
  json.key("gaps");
  json.begin_array();
  for (const std::string& gap : evidence.gaps()) json.text(gap);
  json.end_array();
  json.key("gpu");
  write_gpu_digest(json);
  json.key("health");
  write_health(json, evidence.health());
  json.key("input");
  write_input(json, input);
  json.key("memory");
  write_memory(json, evidence.logical(), evidence.physical());
  json.key("provenance");
  write_provenance(json, evidence.meta());
  json.member("schema", "candle-graph/summary/6");
  json.key("summary");
  write_graph_summary(json, evidence);
  json.key("tensor_stats");
  json.begin_object();
  json.member("events", evidence.tensor_stats());
  json.member("non_finite_events", evidence.non_finite_tensor_stats());
  json.end_object();
  json.key("timing");
  write_timing(json, evidence.timing(), evidence.meta().capture_contract.device_timing);
  json.key("tool");
  write_tool(json);
  json.end_object();
  json.finish();
}

}  // namespace tensortap::analyzers::candle
