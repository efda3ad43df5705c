#include "analyzers/candle/graph.h"

#include <string>

namespace tensortap::analyzers::candle {
namespace {

// Why there is no graph.
format::Error refusal(const format::Health& health) {
  format::Error error;
  error.code = format::ErrorCode::kInvalidArgument;
  if (!health.structurally_valid) {
    error.message = "the trace is structurally invalid (" + std::to_string(health.errors) +
                    (health.errors == 1 ? " error)" : " errors)");
  } else {
    error.message = "the capture failed";
  }
  error.message += ": a graph is made of complete and valid captures only";
  if (!health.structurally_valid) error.message += "; `trace-analyze validate` lists what is wrong";
  return error;
}

}  // namespace

format::Status Graph::finish() {
  if (format::Status status = evidence_.finish(); !status) return status;
  if (!evidence_.valid_and_complete()) return refusal(evidence_.health());
  const SpanTable& spans = evidence_.spans();
  const OpLog& ops = evidence_.ops();
  const bool is_complete = evidence_.meta().capture_contract.logical_memory == format::Coverage::kComplete;
  memory_.emplace(evidence_.tables(), spans, ops, evidence_.logical(), is_complete);
  if (!memory_->status()) return memory_->status();
  self_times_.emplace(spans, ops);
  edges_.emplace(evidence_.tables(), spans, ops, records_);
  return {};
}

void Graph::on_meta(const format::Meta& e, const format::Place& at) { evidence_.on_meta(e, at); }
void Graph::on_span_start(const format::SpanStart& e, const format::Place& at) {
  evidence_.on_span_start(e, at);
}
void Graph::on_span_end(const format::SpanEnd& e, const format::Place& at) { evidence_.on_span_end(e, at); }
void Graph::on_op(const format::Op& e, const format::Place& at) {
  evidence_.on_op(e, at);
  records_.on_op(e);
}
void Graph::on_tensor(const format::Tensor& e, const format::Place& at) {
  evidence_.on_tensor(e, at);
  records_.on_tensor(e);
}
void Graph::on_tensor_stats(const format::TensorStats& e, const format::Place& at) {
  evidence_.on_tensor_stats(e, at);
}
void Graph::on_memory(const format::Memory& e, const format::Place& at) { evidence_.on_memory(e, at); }
void Graph::on_device_memory(const format::DeviceMemory& e, const format::Place& at) {
  evidence_.on_device_memory(e, at);
}
void Graph::on_device_interval(const format::DeviceInterval& e, const format::Place& at) {
  evidence_.on_device_interval(e, at);
}
void Graph::on_gradient(const format::Gradient& e, const format::Place& at) {
  evidence_.on_gradient(e, at);
  records_.on_gradient(e);
}
void Graph::on_edge(const format::Edge& e, const format::Place& at) {
  evidence_.on_edge(e, at);
  records_.on_edge(e);
}
void Graph::on_terminal(const format::Terminal& e, const format::Place& at) { evidence_.on_terminal(e, at); }

}  // namespace tensortap::analyzers::candle
