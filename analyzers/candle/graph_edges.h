// The edges of the graph (trace/10 specification §4.5): the recorded ones and those that follow from spans
// and ops, sorted by the ids of their ends, calls before data.
//
//   GraphEdges edges(tables, spans, ops, records);
//   edges.for_each([&](const GraphEdge& edge) { write(edges.text(edge.from), …); });
//
// A synthesised edge is left out when there is one with the same ends and kind; recorded ones all stay.
// Memory: bounded (a sorter). Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>
#include <string>

#include "analyzers/candle/graph_records.h"
#include "analyzers/candle/op_log.h"
#include "analyzers/candle/span_table.h"
#include "analyzers/candle/trace_tables.h"
#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {

struct NodeRef {
  enum class Kind : std::uint8_t { kSpan, kOp, kTensor };
  std::uint32_t number = kNoId;  // of the span (the op's span) or the tensor
  std::uint32_t index = 0;       // of the op among its span's
  Kind kind = Kind::kSpan;

  bool operator==(const NodeRef&) const = default;
};
// The node's id: that of the span, "<span>/op/<n>" or "tensor/<id>".
std::string node_id(const TraceTables& tables, const NodeRef& node);

struct GraphEdge {
  TextKey from_key, to_key;  // to sort by
  std::uint64_t host_duration_ns = 0;
  NodeRef from, to;
  NameId label = kNoId;
  format::Edge::Kind kind = format::Edge::Kind::kCall;
  bool is_recorded = false;

  bool is_same(const GraphEdge& other) const {
    return from == other.from && to == other.to && kind == other.kind;
  }
};

class GraphEdges {
 public:
  GraphEdges(TraceTables& tables, const SpanTable& spans, const OpLog& ops, const GraphRecords& records);

  template <class Take>
  void for_each(Take take) const {
    GraphEdge last;
    bool is_first = true;
    edges_.for_each([&](const GraphEdge& edge) {
      if (is_first || edge.is_recorded || !edge.is_same(last)) take(edge);
      is_first = false;
      last = edge;
    });
  }

 private:
  struct InOrder {
    const TraceTables* tables;
    bool operator()(const GraphEdge& a, const GraphEdge& b) const;
  };

  void add_recorded(const GraphRecords& records);
  void add_calls(const SpanTable& spans);
  void add_ops(const OpLog& ops, const GraphRecords& records);
  void add(GraphEdge edge);

  TraceTables& tables_;
  mutable format::Sorter<GraphEdge, InOrder> edges_;
};

}  // namespace tensortap::analyzers::candle
