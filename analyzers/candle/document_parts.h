// Members that several candle-graph documents have: each call writes one value, the caller has written its
// key. Keys in byte order.
#pragma once

#include "analyzers/candle/documents.h"

namespace tensortap::analyzers::candle {

void write_tool(JsonOut& json);
void write_input(JsonOut& json, const DocumentInput& input);
void write_provenance(JsonOut& json, const format::Meta& meta);
void write_state(JsonOut& json, const CapabilityState& state);
void write_capabilities(JsonOut& json, const Capabilities& capabilities);
void write_finding(JsonOut& json, const Finding& finding);
void write_host_span(JsonOut& json, const Evidence& evidence, const HostSpan& span);
// The digest of §5.8 for a trace without Nsight input.
void write_gpu_digest(JsonOut& json);
void write_activations(JsonOut& json, const Evidence& evidence);  // the whole profile (§5.6)

}  // namespace tensortap::analyzers::candle
