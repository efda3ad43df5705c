// Which tensor ids are nodes of the graph (seen in tensor records, as inputs or outputs of ops), and which
// are of category activation.
//
//   TensorSet set(tables);
//   set.on_tensor(tensor);  set.on_op(op);
//   set.nodes();                          // distinct ids
//
// Memory: one byte per id, in pages. Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>

#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

class TensorSet {
 public:
  explicit TensorSet(TraceTables& tables) : tables_(tables) {}

  void on_tensor(const format::Tensor& tensor) {
    const bool active = tensor.category == format::MemoryCategory::kActivation;
    mark(tables_.tensors.add(tensor.tensor_id), active ? kNode | kActivation : kNode);
  }
  void on_op(const format::Op& op) {
    for (const std::string_view input : op.inputs) mark(tables_.tensors.add(input), kNode);
    if (op.output) mark(tables_.tensors.add(*op.output), kNode);
  }

  std::uint64_t nodes() const { return nodes_; }
  bool has_activations() const { return has_activations_; }
  // `tensor`: a number of TraceTables::tensors, kNoId included.
  bool is_node(std::uint32_t tensor) const { return has(tensor, kNode); }
  bool is_activation(std::uint32_t tensor) const { return has(tensor, kActivation); }

 private:
  static constexpr std::uint8_t kNode = 1, kActivation = 2;

  bool has(std::uint32_t tensor, std::uint8_t mark) const {
    return tensor < marks_.size() && (marks_[tensor] & mark) != 0;
  }
  void mark(std::uint32_t tensor, std::uint8_t marks) {
    marks_.grow(tensor + std::size_t{1});
    const std::uint8_t old = marks_[tensor];
    if ((old & marks) == marks) return;
    if (old == 0) ++nodes_;
    has_activations_ |= (marks & kActivation) != 0;
    marks_.edit(tensor) = old | marks;
  }

  TraceTables& tables_;
  format::PagedArray<std::uint8_t> marks_{std::size_t{2} << 20};
  std::uint64_t nodes_ = 0;
  bool has_activations_ = false;
};

}  // namespace tensortap::analyzers::candle
