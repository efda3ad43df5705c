#include "analyzers/candle/document_parts.h"

#include <algorithm>
#include <array>

namespace tensortap::analyzers::candle {

void write_tool(JsonOut& json) {
  json.begin_object();
  json.member("package", "tensortap");
  json.member("version", TENSORTAP_VERSION);
  json.end_object();
}

void write_input(JsonOut& json, const DocumentInput& input) {
  json.begin_object();
  json.member("evidence_source", "trace_reconstruction");
  json.member("gpu_identity_bound", false);
  json.member("kind", "raw_trace");
  json.member("requested_path", input.requested_path);
  json.member("trace_path", input.trace_path);
  json.end_object();
}

void write_state(JsonOut& json, const CapabilityState& state) {
  json.begin_object();
  json.member("level", level_name(state.level));
  json.member("reason", state.reason);
  json.member("source", state.source);
  json.end_object();
}

void write_capabilities(JsonOut& json, const Capabilities& capabilities) {
  std::array<Capability, kCapabilities> order;
  for (std::size_t i = 0; i < kCapabilities; ++i) order[i] = static_cast<Capability>(i);
  std::sort(order.begin(), order.end(),
            [](Capability a, Capability b) { return capability_key(a) < capability_key(b); });
  json.begin_object();
  for (const Capability capability : order) {
    json.key(capability_key(capability));
    write_state(json, capabilities[capability]);
  }
  json.end_object();
}

void write_finding(JsonOut& json, const Finding& finding) {
  json.begin_object();
  json.member("code", finding.code);
  json.member("qualification", level_name(finding.qualification));
  json.key("requires");
  json.begin_array();
  for (const Capability capability : finding.needs) json.text(capability_kind(capability));
  json.end_array();
  json.member("source", finding.source);
  json.member("summary", finding.summary);
  json.end_object();
}

void write_host_span(JsonOut& json, const Evidence& evidence, const HostSpan& span) {
  json.begin_object();
  json.member("full_duration_ns", span.full_ns);
  json.member("host_self_time_ns", span.self_ns);
  json.member("id", evidence.tables().spans.text(span.span));
  json.member("measured_overlap_duration_ns", span.overlap_ns);
  json.member("measured_overlap_self_time_ns", span.overlap_self_ns);
  json.member("name", evidence.tables().labels.text(evidence.spans()[span.span].name));
  json.member("scope", span.scope == Scope::kMeasuredSubtree ? "measured_subtree" : "concurrent_overlap");
  json.end_object();
}

namespace {

constexpr const char* kNoReport = "there is no Nsight report of this kind";

// A count behind reports that are not there.
void write_unavailable_total(JsonOut& json, const char* key) {
  json.key(key);
  json.begin_object();
  json.member("reason", kNoReport);
  json.member("status", "unavailable");
  json.key("total");
  json.null();
  json.end_object();
}

void write_unavailable_correlation(JsonOut& json) {
  json.key("correlation");
  json.begin_object();
  json.key("complete");
  json.null();
  json.member("reason", kNoReport);
  json.member("status", "unavailable");
  json.end_object();
}

}  // namespace

void write_gpu_digest(JsonOut& json) {
  json.begin_object();
  write_unavailable_total(json, "attributed_phases");
  write_unavailable_correlation(json);
  json.key("coverage");
  json.begin_object();
  for (const char* report :
       {"gpu_timeline", "kernel_summary", "memory_summary", "nvtx_projection", "runtime_summary"}) {
    json.member(report, false);
  }
  json.end_object();
  // There is no capture manifest, and so nothing that binds GPU evidence to this run.
  json.member("diagnostic_count", std::uint64_t{2});
  json.key("normalized_rows");
  json.begin_object();
  for (const char* rows :
       {"gpu_timeline", "kernels", "memory_operations", "projected_ranges", "runtime_calls"}) {
    write_unavailable_total(json, rows);
  }
  json.end_object();
  json.member("provenance_binding", "partial");
  json.member("reason", "no Nsight folder was given");
  json.member("status", "unavailable");
  json.end_object();
}

}  // namespace tensortap::analyzers::candle
