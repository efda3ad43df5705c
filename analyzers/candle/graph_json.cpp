// candle-graph/graph/5 as JSON (trace/10 specification §4.5).
#include <string>

#include "analyzers/candle/graph.h"
#include "format/event_names.h"

namespace tensortap::analyzers::candle {
namespace {

class GraphJson {
 public:
  GraphJson(JsonOut& json, const Graph& graph)
      : json_(json),
        graph_(graph),
        evidence_(graph.evidence()),
        tables_(evidence_.tables()),
        spans_(evidence_.spans()) {}

  void write() {
    json_.begin_object();
    json_.member("schema", "candle-graph/graph/5");
    list("spans", [this] {
      tables_.spans.for_each_in_order([this](std::uint32_t span) {
        if (spans_.is_declared(span)) write_span(span);
      });
      for (std::uint64_t op = 0; op < evidence_.ops().size(); ++op) write_op(op, evidence_.ops()[op]);
      tables_.tensors.for_each_in_order([this](std::uint32_t tensor) {
        if (graph_.records().is_node(tensor)) write_tensor_node(tensor);
      });
    });
    list("edges", [this] { graph_.edges().for_each([this](const GraphEdge& edge) { write_edge(edge); }); });
    list("tensors", [this] {
      graph_.records().tensors().for_each([this](const TensorRow& row) { write_tensor(row); });
    });
    list("gradients", [this] {
      graph_.records().gradients().for_each([this](const GradientRow& row) { write_gradient(row); });
    });
    json_.key("summary");
    write_summary();
    json_.end_object();
  }

 private:
  template <class Items>
  void list(const char* name, Items items) {
    json_.key(name);
    json_.begin_array();
    items();
    json_.end_array();
  }

  std::string span_name(std::uint32_t span) const { return tables_.labels.text(spans_[span].name); }

  // The members that every node has.
  void begin_node(const NodeRef& node, std::uint32_t parent, std::string_view name, std::string_view kind) {
    json_.begin_object();
    json_.member("id", node_id(tables_, node));
    json_.key("parent_id");
    if (parent == kNoId) {
      json_.null();
    } else {
      json_.text(tables_.spans.text(parent));
    }
    json_.member("name", name);
    json_.member("kind", kind);
  }

  void write_times(std::uint64_t start_ns, std::uint64_t self_ns, std::uint64_t total_ns) {
    json_.member("start_ns", start_ns);
    json_.member("host_self_time_ns", self_ns);
    json_.member("host_total_time_ns", total_ns);
  }

  void write_shape(ShapeId shape, NameId dtype, NameId device) {
    if (shape != NumberLists::kEmpty) {
      json_.key("shape");
      json_.numbers(tables_.shapes.get(shape));
    }
    json_.member("dtype", tables_.names.text(dtype));
    json_.member("device", tables_.names.text(device));
  }

  void write_span(std::uint32_t span) {
    const SpanRow row = spans_[span];
    begin_node({span, 0, NodeRef::Kind::kSpan}, row.parent, span_name(span),
               row.parent == kNoId ? "root" : format::enum_name(row.kind));
    write_times(row.start_ns, graph_.self_times()[span], row.duration_ns);
    write_device_timings(span);
    const SpanMemory::Row memory = graph_.memory()[span];
    if (memory.knows_allocated) json_.member("allocated_bytes", memory.allocated_bytes);
    if (memory.knows_subtree) {
      json_.member("peak_live_bytes", memory.peak_live_bytes);
      json_.member("residual_bytes", memory.residual_bytes);
    }
    json_.end_object();
  }

  void write_device_timings(std::uint32_t span) {
    bool any = false;
    evidence_.timing().for_each_row_of(span, [&](const DeviceTiming::SpanRow& row) {
      if (!any) {
        json_.key("device_timings");
        json_.begin_array();
      }
      any = true;
      json_.begin_object();
      json_.member("device", tables_.names.text(row.device));
      json_.member("clock_id", tables_.names.text(row.clock));
      json_.member("busy_ns", row.busy_ns);
      json_.end_object();
    });
    if (any) json_.end_array();
  }

  void write_op(std::uint64_t op, const OpRow row) {
    begin_node({row.span, row.index, NodeRef::Kind::kOp}, row.span, tables_.names.text(row.name), "op");
    write_times(row.start_ns, row.duration_ns, row.duration_ns);
    write_shape(row.shape, row.dtype, row.device);
    if (const auto bytes = graph_.memory().of_op(op)) json_.member("allocated_bytes", *bytes);
    if (row.has_dense_bytes) json_.member("dense_bytes", row.dense_bytes);
    json_.end_object();
  }

  void write_tensor_node(std::uint32_t tensor) {
    const NodeRef node{tensor, 0, NodeRef::Kind::kTensor};
    const std::uint64_t naming = graph_.records().naming(tensor);
    if (naming == GraphRecords::kNoRecord) {
      begin_node(node, kNoId, tables_.tensors.text(tensor), "tensor");
      write_times(0, 0, 0);
    } else {
      const TensorRow row = graph_.records().tensors()[naming];
      begin_node(node, row.span,
                 row.label == kNoId ? tables_.tensors.text(tensor) : tables_.labels.text(row.label),
                 "tensor");
      write_times(0, 0, 0);
      write_shape(row.shape, row.dtype, row.device);
      if (row.has_dense_bytes) json_.member("dense_bytes", row.dense_bytes);
    }
    json_.end_object();
  }

  void write_edge(const GraphEdge& edge) {
    const bool is_call = edge.kind == format::Edge::Kind::kCall;
    json_.begin_object();
    json_.member("kind", is_call ? "call" : "data");
    json_.member(is_call ? "from_span" : "from_tensor", node_id(tables_, edge.from));
    json_.member(is_call ? "to_span" : "to_tensor", node_id(tables_, edge.to));
    if (is_call) json_.member("host_duration_ns", edge.host_duration_ns);
    if (edge.label != kNoId) json_.member("label", tables_.names.text(edge.label));
    json_.end_object();
  }

  void write_tensor(const TensorRow& row) {
    json_.begin_object();
    json_.member("span_id", tables_.spans.text(row.span));
    json_.member("tensor_id", tables_.tensors.text(row.tensor));
    if (row.label != kNoId) json_.member("label", tables_.labels.text(row.label));
    json_.key("shape");
    json_.numbers(tables_.shapes.get(row.shape));
    json_.member("dtype", tables_.names.text(row.dtype));
    json_.member("device", tables_.names.text(row.device));
    json_.member("requires_grad", row.requires_grad);
    if (row.has_dense_bytes) json_.member("dense_bytes", row.dense_bytes);
    json_.member("category", format::enum_name(row.category));
    json_.end_object();
  }

  void write_gradient(const GradientRow& row) {
    json_.begin_object();
    json_.member("root", tables_.labels.text(row.root));
    json_.member("key", tables_.labels.text(row.key));
    json_.member("state", format::enum_name(row.state));
    if (row.has_norm) {
      json_.key("norm");
      json_.real(row.norm);
    }
    json_.end_object();
  }

  void write_summary() {
    const GraphSummary& summary = *evidence_.graph();
    json_.begin_object();
    json_.member("entrypoint", evidence_.meta().entrypoint);
    json_.member("outer_wall_time_ns", summary.outer_wall_time_ns);
    list("slowest_host_spans", [&] {
      for (const HostSpan& span : summary.slowest_host) write_slow_host(span);
    });
    list("slowest_device_spans", [&] {
      for (const DeviceTiming::SpanRow& row : summary.slowest_device) write_slow_device(row);
    });
    list("heaviest_spans", [&] {
      for (const HeavySpan& span : summary.heaviest) write_heavy(span);
    });
    json_.end_object();
  }

  void write_slow_host(const HostSpan& span) {
    json_.begin_object();
    json_.member("id", tables_.spans.text(span.span));
    json_.member("name", span_name(span.span));
    json_.member("scope", span.scope == Scope::kMeasuredSubtree ? "measured_subtree" : "concurrent_overlap");
    json_.member("host_self_time_ns", span.self_ns);
    json_.member("measured_overlap_self_time_ns", span.overlap_self_ns);
    json_.member("full_duration_ns", span.full_ns);
    json_.member("measured_overlap_duration_ns", span.overlap_ns);
    json_.end_object();
  }

  void write_slow_device(const DeviceTiming::SpanRow& row) {
    json_.begin_object();
    json_.member("id", tables_.spans.text(row.span));
    json_.member("name", span_name(row.span));
    json_.member("device", tables_.names.text(row.device));
    json_.member("clock_id", tables_.names.text(row.clock));
    json_.member("device_busy_ns", row.busy_ns);
    json_.end_object();
  }

  void write_heavy(const HeavySpan& span) {
    json_.begin_object();
    json_.member("id", tables_.spans.text(span.span));
    json_.member("name", span_name(span.span));
    json_.member("allocated_bytes", span.allocated_bytes);
    json_.member("peak_live_bytes", span.peak_live_bytes);
    json_.end_object();
  }

  JsonOut& json_;
  const Graph& graph_;
  const Evidence& evidence_;
  const TraceTables& tables_;
  const SpanTable& spans_;
};

}  // namespace

void write_graph(JsonOut& json, const Graph& graph) {
  GraphJson(json, graph).write();
  json.finish();
}

}  // namespace tensortap::analyzers::candle
