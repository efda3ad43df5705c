// What the graph document needs of a stream besides spans and ops: inputs of ops, tensor records, gradients
// and edges, as fixed rows in stream order (trace/10 specification §4.5).
//
//   GraphRecords records(tables);
//   records.on_op(op);  records.on_tensor(tensor);  …
//   records.naming(tensor_number);         // which tensor record names the tensor's node
//
// Memory: bounded (PagedArray). Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>

#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

// Numbers are of the shared TraceTables.
struct TensorRow {
  std::uint64_t dense_bytes = 0;
  std::uint32_t span = kNoId, tensor = kNoId;
  std::uint32_t label = kNoId;  // of TraceTables::labels; kNoId: none
  ShapeId shape = NumberLists::kEmpty;
  NameId dtype = kNoId, device = kNoId;
  format::MemoryCategory category = format::MemoryCategory::kOther;
  bool requires_grad = false, has_dense_bytes = false;
};

struct GradientRow {
  double norm = 0;
  std::uint32_t root = kNoId, key = kNoId;  // of TraceTables::labels
  format::GradientState state = format::GradientState::kMissing;
  bool has_norm = false;
};

struct RecordedEdge {
  std::uint64_t host_duration_ns = 0;
  std::uint32_t from = kNoId, to = kNoId;  // spans of a call edge, tensors of a data edge
  format::Edge::Kind kind = format::Edge::Kind::kData;
};

class GraphRecords {
 public:
  static constexpr std::uint64_t kNoRecord = ~std::uint64_t{0};

  explicit GraphRecords(TraceTables& tables) : tables_(tables) {}

  void on_op(const format::Op& op);
  void on_tensor(const format::Tensor& tensor);
  void on_gradient(const format::Gradient& gradient);
  void on_edge(const format::Edge& edge);

  const format::PagedArray<TensorRow>& tensors() const { return tensors_; }
  const format::PagedArray<GradientRow>& gradients() const { return gradients_; }
  const format::PagedArray<RecordedEdge>& edges() const { return edges_; }
  // Inputs of all ops one after the other, in stream order, and how many of them each op has.
  const format::PagedArray<std::uint32_t>& inputs() const { return inputs_; }
  const format::PagedArray<std::uint32_t>& input_counts() const { return input_counts_; }

  // The tensor is a node: a tensor record, an op's input or output.
  bool is_node(std::uint32_t tensor) const { return tensor < nodes_.size() && nodes_[tensor].is_node; }
  // Index in tensors() of the first record of that id that has a label, else of the first, else kNoRecord.
  std::uint64_t naming(std::uint32_t tensor) const {
    return tensor < nodes_.size() ? nodes_[tensor].record : kNoRecord;
  }

 private:
  struct Node {
    std::uint64_t record = kNoRecord;
    bool is_node = false, is_labelled = false;
  };
  Node& node(std::uint32_t tensor) {
    nodes_.grow(tensor + std::size_t{1});
    Node& found = nodes_.edit(tensor);
    found.is_node = true;
    return found;
  }

  TraceTables& tables_;
  format::PagedArray<TensorRow> tensors_{std::size_t{4} << 20};
  format::PagedArray<GradientRow> gradients_{std::size_t{1} << 20};
  format::PagedArray<RecordedEdge> edges_{std::size_t{2} << 20};
  format::PagedArray<std::uint32_t> inputs_{std::size_t{2} << 20}, input_counts_{std::size_t{1} << 20};
  format::PagedArray<Node> nodes_{std::size_t{4} << 20};  // by tensor
};

}  // namespace tensortap::analyzers::candle
