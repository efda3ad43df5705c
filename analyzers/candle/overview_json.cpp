// candle-graph/overview/2 (trace/10 specification §5.9): the same evidence, bounded in size.
#include <algorithm>

#include "analyzers/candle/document_parts.h"
#include "analyzers/candle/documents.h"

namespace tensortap::analyzers::candle {
namespace {

// The first `most` of `rows`; write(row).
template <class Rows, class Write>
void write_bounded(JsonOut& json, const Rows& rows, std::size_t most, Write write) {
  const std::size_t displayed = std::min(most, rows.size());
  json.begin_object();
  json.member("displayed", std::uint64_t{displayed});
  json.key("rows");
  json.begin_array();
  for (std::size_t i = 0; i < displayed; ++i) write(rows[i]);
  json.end_array();
  json.member("total", std::uint64_t{rows.size()});
  json.member("truncated", displayed < rows.size());
  json.end_object();
}

void write_top(JsonOut& json, const Evidence& evidence, const std::optional<ActivationOp>& op,
               bool is_bytes) {
  if (!op) return json.null();
  const OpRow row = evidence.ops()[op->op];
  json.begin_object();
  json.member(is_bytes ? "bytes" : "duration_ns", is_bytes ? row.dense_bytes : row.duration_ns);
  json.member("id", evidence.activations().id(*op));
  json.member("name", evidence.tables().names.text(row.name));
  json.end_object();
}

void write_activations_digest(JsonOut& json, const Evidence& evidence) {
  const ActivationStates& states = evidence.activation_states();
  json.begin_object();
  json.key("coverage");
  write_state(json, states.coverage);
  json.key("device_time");
  write_state(json, states.device_time);
  json.key("host_time");
  write_state(json, states.host_time);
  json.member("observed_operations", evidence.activations().listed());
  json.key("top_dense_output");
  write_top(json, evidence, evidence.activations().largest(), true);
  json.key("top_observed_host");
  write_top(json, evidence, evidence.activations().longest(), false);
  json.end_object();
}

void write_counts(JsonOut& json, const Evidence& evidence) {
  json.begin_object();
  json.key("graph_spans");
  if (evidence.graph()) {
    json.number(evidence.graph()->nodes);
  } else {
    json.null();
  }
  json.member("tensor_stat_events", evidence.tensor_stats());
  json.member("tensor_stat_non_finite_events", evidence.non_finite_tensor_stats());
  json.end_object();
}

void write_health_digest(JsonOut& json, const format::Health& health) {
  json.begin_object();
  json.member("capture_complete", health.capture_complete);
  json.member("error_count", health.errors);
  json.member("structurally_valid", health.structurally_valid);
  json.member("warning_count", health.warnings);
  json.end_object();
}

void write_logical_totals(JsonOut& json, const LogicalMemory& logical) {
  if (!logical.observed()) return json.null();
  const LogicalMemory::Totals& totals = logical.totals();
  const auto peak_figure = [&](const char* key, std::uint64_t LogicalMemory::Peak::*figure) {
    json.key(key);
    if (totals.peak) {
      json.number((*totals.peak).*figure);
    } else {
      json.null();
    }
  };
  json.begin_object();
  json.member("matched_storage_free_count", totals.frees);
  peak_figure("peak_live_bytes", &LogicalMemory::Peak::live_bytes);
  peak_figure("peak_timestamp_ns", &LogicalMemory::Peak::timestamp_ns);
  json.member("storage_allocation_count", totals.allocations);
  json.member("total_allocated_bytes", totals.allocated_bytes);
  json.end_object();
}

void write_query(JsonOut& json, const DocumentInput& input, const char* purpose,
                 std::initializer_list<const char*> options) {
  json.begin_object();
  json.key("argv");
  json.begin_array();
  json.text("candle-graph");
  json.text("query");
  json.text(input.requested_path);
  json.text("--kind");
  for (const char* option : options) json.text(option);
  json.end_array();
  json.member("purpose", purpose);
  json.end_object();
}

void write_timing_digest(JsonOut& json, const Evidence& evidence) {
  constexpr std::size_t kMostSpans = 5;
  json.key("timing");
  if (evidence.graph()) {
    json.begin_object();
    json.member("entrypoint", evidence.meta().entrypoint);
    json.member("outer_wall_time_ns", evidence.graph()->outer_wall_time_ns);
    json.key("slowest_host_spans");
    write_bounded(json, evidence.graph()->slowest_host, kMostSpans,
                  [&](const HostSpan& span) { write_host_span(json, evidence, span); });
    json.end_object();
  } else {
    json.null();
  }
  json.key("timing_unavailable_reason");
  if (evidence.graph()) return json.null();
  json.text(evidence.health().structurally_valid ? "the capture failed, so there is no graph"
                                                 : "the trace is structurally invalid, so there is no graph");
}

}  // namespace

void write_overview(JsonOut& json, const Evidence& evidence, const DocumentInput& input) {
  constexpr std::size_t kMostRows = 20;
  json.begin_object();
  json.key("activations");
  write_activations_digest(json, evidence);
  json.key("capabilities");
  write_capabilities(json, evidence.capabilities());
  json.key("counts");
  write_counts(json, evidence);
  json.key("findings");
  write_bounded(json, evidence.findings(), kMostRows, [&](const Finding& f) { write_finding(json, f); });
  json.key("gaps");
  write_bounded(json, evidence.gaps(), kMostRows, [&](const std::string& gap) { json.text(gap); });
  json.key("gpu");
  write_gpu_digest(json);
  json.key("health");
  write_health_digest(json, evidence.health());
  json.key("input");
  write_input(json, input);
  json.key("memory");
  json.begin_object();
  json.member("logical", evidence.logical().observed());
  json.key("logical_totals");
  write_logical_totals(json, evidence.logical());
  json.member("physical", evidence.physical().observed());
  json.end_object();
  json.key("next_queries");
  json.begin_array();
  write_query(json, input, "all labels of spans, tensors, statistics and gradients", {"labels"});
  write_query(json, input, "the first tensor statistics", {"tensor-stats", "--limit", "50"});
  json.end_array();
  json.key("provenance");
  write_provenance(json, evidence.meta());
  json.member("schema", "candle-graph/overview/2");
  write_timing_digest(json, evidence);
  json.key("tool");
  write_tool(json);
  json.end_object();
  json.finish();
}

}  // namespace tensortap::analyzers::candle
