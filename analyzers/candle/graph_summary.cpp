#include "analyzers/candle/graph_summary.h"

#include <charconv>
#include <string_view>

#include "analyzers/candle/top_list.h"

namespace tensortap::analyzers::candle {
namespace {

constexpr std::string_view kTensor = "tensor/", kOp = "/op/";

struct BusyFirst {
  bool operator()(const DeviceTiming::SpanRow& a, const DeviceTiming::SpanRow& b) const {
    return a.busy_ns > b.busy_ns;
  }
};

std::vector<DeviceTiming::SpanRow> slowest_device_spans(const ActivationInputs& in) {
  TopList<DeviceTiming::SpanRow, BusyFirst> top(kTopSpans, {});
  in.timing.for_each_span_row([&](const DeviceTiming::SpanRow& row) {
    if (in.scope[row.span] == Scope::kMeasuredSubtree) top.offer(row);
  });
  return top.rows();
}

bool is_op_node(const ActivationInputs& in, std::string_view id) {
  const std::size_t at = id.rfind(kOp);
  if (at == std::string_view::npos) return false;
  const std::string_view digits = id.substr(at + kOp.size());
  const std::uint32_t span = in.tables.spans.find(id.substr(0, at));
  if (!in.spans.is_declared(span)) return false;
  std::uint32_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return error == std::errc() && std::to_string(index) == digits && index < in.spans[span].op_count;
}

bool is_tensor_node(const ActivationInputs& in, std::string_view id) {
  return id.substr(0, kTensor.size()) == kTensor &&
         in.tensors.is_node(in.tables.tensors.find(id.substr(kTensor.size())));
}

}  // namespace

GraphSummary summarize_graph(const ActivationInputs& in, const format::CaptureContract& contract) {
  GraphSummary out;
  out.nodes = in.spans.declared() + in.ops.size() + in.tensors.nodes();
  out.outer_wall_time_ns = in.spans[in.spans.first_measured()].duration_ns;
  out.slowest_host = slowest_host_spans(in.tables, in.spans, in.ops, in.scope);
  out.slowest_device = slowest_device_spans(in);
  out.heaviest = heaviest_spans(in.tables, in.spans, in.scope, in.logical,
                                contract.logical_memory == format::Coverage::kComplete);
  return out;
}

std::optional<std::string> repeated_node_id(const ActivationInputs& in) {
  const auto& candidates = in.spans.node_like();
  for (std::uint64_t i = 0; i < candidates.size(); ++i) {
    const std::string id = in.tables.spans.text(candidates[i]);
    if (is_tensor_node(in, id) || is_op_node(in, id)) return id;
    if (std::string_view(id).substr(0, kTensor.size()) != kTensor) continue;
    const std::uint32_t ops = in.spans[candidates[i]].op_count;
    for (std::uint32_t op = 0; op < ops; ++op) {
      const std::string node = id + std::string(kOp) + std::to_string(op);
      if (is_tensor_node(in, node)) return node;
    }
  }
  return std::nullopt;
}

}  // namespace tensortap::analyzers::candle
