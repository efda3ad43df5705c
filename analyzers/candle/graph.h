// The graph of one trace: candle-graph/graph/5 (trace/10 specification §4.5), from one pass.
//
//   Graph graph;
//   ReadReport read = reader.read_all(graph);
//   …unreadable if read says so…
//   if (Status status = graph.finish(); !status) …   // no graph can be made; the message says why
//   write_graph(json, graph);
//
// A graph is made of complete and valid captures only, in which no two nodes get one id.
// Memory: bounded by pages, like Evidence. Thread rules: one thread at a time, reading too.
#pragma once

#include <optional>

#include "analyzers/candle/evidence.h"
#include "analyzers/candle/graph_edges.h"
#include "analyzers/candle/graph_records.h"
#include "analyzers/candle/json_out.h"
#include "analyzers/candle/self_times.h"
#include "analyzers/candle/span_memory.h"
#include "format/event.h"
#include "format/result.h"

namespace tensortap::analyzers::candle {

class Graph final : public format::EventVisitor {
 public:
  // Call once, after the last record. The errors of Evidence::finish; kInvalidArgument also for a failed or
  // invalid capture; kUnsupported: spans nested beyond what SpanMemory can tell.
  format::Status finish();

  // All that follows: after a finish() that went well.
  const Evidence& evidence() const { return evidence_; }
  const GraphRecords& records() const { return records_; }
  const GraphEdges& edges() const { return *edges_; }
  const SpanMemory& memory() const { return *memory_; }
  const SelfTimes& self_times() const { return *self_times_; }

  void on_meta(const format::Meta&, const format::Place&) override;
  void on_span_start(const format::SpanStart&, const format::Place&) override;
  void on_span_end(const format::SpanEnd&, const format::Place&) override;
  void on_op(const format::Op&, const format::Place&) override;
  void on_tensor(const format::Tensor&, const format::Place&) override;
  void on_tensor_stats(const format::TensorStats&, const format::Place&) override;
  void on_memory(const format::Memory&, const format::Place&) override;
  void on_device_memory(const format::DeviceMemory&, const format::Place&) override;
  void on_device_interval(const format::DeviceInterval&, const format::Place&) override;
  void on_gradient(const format::Gradient&, const format::Place&) override;
  void on_edge(const format::Edge&, const format::Place&) override;
  void on_terminal(const format::Terminal&, const format::Place&) override;

 private:
  Evidence evidence_;
  GraphRecords records_{evidence_.tables()};
  std::optional<SelfTimes> self_times_;
  std::optional<SpanMemory> memory_;
  std::optional<GraphEdges> edges_;
};

// The document, members in the order of the specification's tables.
void write_graph(JsonOut& json, const Graph& graph);

}  // namespace tensortap::analyzers::candle
