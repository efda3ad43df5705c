#include "analyzers/candle/graph_records.h"

#include "analyzers/candle/dense_bytes.h"

namespace tensortap::analyzers::candle {

void GraphRecords::on_op(const format::Op& op) {
  for (const std::string_view input : op.inputs) {
    const std::uint32_t tensor = tables_.tensors.add(input);
    node(tensor);
    inputs_.push_back(tensor);
  }
  input_counts_.push_back(static_cast<std::uint32_t>(op.inputs.size()));
  if (op.output) node(tables_.tensors.add(*op.output));
}

void GraphRecords::on_tensor(const format::Tensor& tensor) {
  TensorRow row;
  row.span = tables_.spans.add(tensor.span_id);
  row.tensor = tables_.tensors.add(tensor.tensor_id);
  if (tensor.label) row.label = tables_.labels.add(*tensor.label);
  row.shape = tables_.shapes.add(tensor.shape);
  row.dtype = tables_.names.add(tensor.dtype);
  row.device = tables_.names.add(tensor.device);
  row.category = tensor.category;
  row.requires_grad = tensor.requires_grad;
  const auto dense = tensor.dense_bytes ? tensor.dense_bytes : dense_bytes(tensor.shape, tensor.dtype);
  row.has_dense_bytes = dense.has_value();
  row.dense_bytes = dense.value_or(0);
  const std::uint64_t record = tensors_.push_back(row);

  Node& named = node(row.tensor);
  if (named.record != kNoRecord && (named.is_labelled || !tensor.label)) return;
  named.record = record;
  named.is_labelled = tensor.label.has_value();
}

void GraphRecords::on_gradient(const format::Gradient& gradient) {
  GradientRow row;
  row.root = tables_.labels.add(gradient.root);
  row.key = tables_.labels.add(gradient.key);
  row.state = gradient.state;
  row.has_norm = gradient.norm.has_value();
  row.norm = gradient.norm.value_or(0);
  gradients_.push_back(row);
}

void GraphRecords::on_edge(const format::Edge& edge) {
  format::IdIndex& ids = edge.edge_kind == format::Edge::Kind::kCall ? tables_.spans : tables_.tensors;
  RecordedEdge row;
  row.from = ids.add(edge.from);
  row.to = ids.add(edge.to);
  row.host_duration_ns = edge.host_duration_ns;
  row.kind = edge.edge_kind;
  edges_.push_back(row);
}

}  // namespace tensortap::analyzers::candle
