// Call and data edges against the spans and tensors of the stream (internal to format/health; §3.2, the five
// codes on edges, edge by edge in stream order).
//
// An edge may come before what it names, so one that is not yet seen to be right waits for the end.
//
//   EdgeChecks edges(spans);
//   edges.add(edge, place);  edges.saw_tensor(id);
//   edges.report(issues);
//
// Memory: pages; all tensor ids of the stream are numbered here. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "format/event.h"
#include "format/health/issue_list.h"
#include "format/paging/id_index.h"
#include "format/paging/paged_array.h"
#include "format/span_table.h"

namespace tensortap::format {

class EdgeChecks {
 public:
  explicit EdgeChecks(SpanTable& spans) : spans_(spans) {}

  // An op or a tensor record names the tensor. Memory records make none known (§3.2): `mention` numbers it.
  void saw_tensor(std::string_view id) {
    const std::uint32_t tensor = tensors_.add(id);
    const std::uint64_t bit = std::uint64_t{1} << (tensor % 64);
    if (tensor / 64 >= known_.size()) known_.grow(tensor / 64 + 1);
    if ((known_[tensor / 64] & bit) == 0) known_.edit(tensor / 64) |= bit;
  }
  std::uint32_t mention(std::string_view tensor_id) { return tensors_.add(tensor_id); }
  const IdIndex& tensors() const { return tensors_; }

  void add(const Edge& edge, const Place& place);
  void report(IssueList& issues) const;

 private:
  struct Row {
    Place place;
    std::uint64_t duration_ns = 0;
    std::uint32_t from = 0, to = 0;  // spans, or tensors
    Edge::Kind kind = Edge::Kind::kCall;
    bool empty_end = false;
  };

  bool is_known(std::uint32_t tensor) const {
    return tensor / 64 < known_.size() && (known_[tensor / 64] >> (tensor % 64) & 1) != 0;
  }
  bool is_right(const Row& row) const;
  void report_call(const Row& row, IssueList& issues) const;
  void report_data(const Row& row, IssueList& issues) const;

  SpanTable& spans_;
  IdIndex tensors_{std::size_t{16} << 20};
  PagedArray<std::uint64_t> known_;  // a bit per tensor
  PagedArray<Row> waiting_;
};

}  // namespace tensortap::format
