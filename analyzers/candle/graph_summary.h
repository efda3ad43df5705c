// The summary of the graph (trace/10 specification §4.5): how many nodes it has, the time of the measured
// span, and its three rankings. For a complete and valid capture only: others have no graph.
//
//   if (auto id = repeated_node_id(in)) return refuse(*id);     // then no document can be made
//   const GraphSummary graph = summarize_graph(in, contract);
//
// Memory: bounded. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzers/candle/activation_inputs.h"
#include "analyzers/candle/heaviest_spans.h"
#include "analyzers/candle/host_times.h"
#include "format/event.h"

namespace tensortap::analyzers::candle {

struct GraphSummary {
  std::uint64_t nodes = 0;  // spans, ops and distinct tensor ids
  std::uint64_t outer_wall_time_ns = 0;
  std::vector<HostSpan> slowest_host;
  std::vector<DeviceTiming::SpanRow> slowest_device;  // by busy time; equal ones in node order
  std::vector<HeavySpan> heaviest;
};

GraphSummary summarize_graph(const ActivationInputs& in, const format::CaptureContract& contract);

// An id that two nodes of the graph would have: a span named like the node "<span>/op/<n>" of an op record or
// "tensor/<id>" of a tensor, or an op's node named like a tensor's.
std::optional<std::string> repeated_node_id(const ActivationInputs& in);

}  // namespace tensortap::analyzers::candle
