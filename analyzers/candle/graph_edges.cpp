#include "analyzers/candle/graph_edges.h"

namespace tensortap::analyzers::candle {
namespace {

using CallOrData = format::Edge::Kind;

NodeRef span_node(std::uint32_t span) { return {span, 0, NodeRef::Kind::kSpan}; }
NodeRef tensor_node(std::uint32_t tensor) { return {tensor, 0, NodeRef::Kind::kTensor}; }

}  // namespace

std::string node_id(const TraceTables& tables, const NodeRef& node) {
  switch (node.kind) {
    case NodeRef::Kind::kSpan:
      return tables.spans.text(node.number);
    case NodeRef::Kind::kOp:
      return tables.spans.text(node.number) + "/op/" + std::to_string(node.index);
    case NodeRef::Kind::kTensor:
      break;
  }
  return "tensor/" + tables.tensors.text(node.number);
}

bool GraphEdges::InOrder::operator()(const GraphEdge& a, const GraphEdge& b) const {
  if (a.from_key != b.from_key) return a.from_key < b.from_key;
  if (a.from != b.from) return node_id(*tables, a.from) < node_id(*tables, b.from);
  if (a.to_key != b.to_key) return a.to_key < b.to_key;
  if (a.to != b.to) return node_id(*tables, a.to) < node_id(*tables, b.to);
  return a.kind < b.kind;
}

GraphEdges::GraphEdges(TraceTables& tables, const SpanTable& spans, const OpLog& ops,
                       const GraphRecords& records)
    : tables_(tables), edges_(InOrder{&tables}) {
  add_recorded(records);
  add_calls(spans);
  add_ops(ops, records);
}

void GraphEdges::add(GraphEdge edge) {
  edge.from_key = TextKey(node_id(tables_, edge.from));
  edge.to_key = TextKey(node_id(tables_, edge.to));
  edges_.add(edge);
}

void GraphEdges::add_recorded(const GraphRecords& records) {
  records.edges().for_each([this](const RecordedEdge& recorded) {
    const bool is_call = recorded.kind == CallOrData::kCall;
    GraphEdge edge;
    edge.from = is_call ? span_node(recorded.from) : tensor_node(recorded.from);
    edge.to = is_call ? span_node(recorded.to) : tensor_node(recorded.to);
    edge.host_duration_ns = recorded.host_duration_ns;
    edge.kind = recorded.kind;
    edge.is_recorded = true;
    add(edge);
  });
}

void GraphEdges::add_calls(const SpanTable& spans) {
  for (std::uint32_t span = 0; span < spans.size(); ++span) {
    const SpanRow row = spans[span];
    if (!row.declared || row.parent == kNoId || row.kind == format::SpanKind::kOp) continue;
    GraphEdge edge;
    edge.from = span_node(row.parent);
    edge.to = span_node(span);
    edge.host_duration_ns = row.duration_ns;
    add(edge);
  }
}

void GraphEdges::add_ops(const OpLog& ops, const GraphRecords& records) {
  const NameId input = tables_.names.add("input"), output = tables_.names.add("output");
  std::uint64_t next_input = 0;
  for (std::uint64_t op = 0; op < ops.size(); ++op) {
    const OpRow row = ops[op];
    const NodeRef node{row.span, row.index, NodeRef::Kind::kOp};
    GraphEdge edge;
    edge.from = span_node(row.span);
    edge.to = node;
    edge.host_duration_ns = row.duration_ns;
    edge.label = row.name;
    add(edge);
    edge.host_duration_ns = 0;
    edge.kind = CallOrData::kData;
    edge.label = input;
    for (std::uint32_t i = records.input_counts()[op]; i > 0; --i) {
      edge.from = tensor_node(records.inputs()[next_input++]);
      add(edge);
    }
    if (row.output == kNoId) continue;
    edge.from = node;
    edge.to = tensor_node(row.output);
    edge.label = output;
    add(edge);
  }
}

}  // namespace tensortap::analyzers::candle
