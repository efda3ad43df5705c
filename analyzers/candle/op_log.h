// The op records of a stream as fixed rows, in stream order; texts are numbers of the shared tables.
//
//   OpLog ops(tables, spans);
//   ops.on_op(op);
//   const OpRow& row = ops[0];         // good until the next call
//
// Memory: bounded (PagedArray). Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>

#include "analyzers/candle/span_table.h"
#include "analyzers/candle/trace_tables.h"
#include "format/event.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

struct OpRow {
  std::uint64_t start_ns = 0, duration_ns = 0;
  std::uint64_t dense_bytes = 0;  // of the output, bytes
  std::uint32_t span = kNoId;
  std::uint32_t index = 0;  // among the span's ops
  NameId name = kNoId;
  std::uint32_t output = kNoId;  // of TraceTables::tensors; kNoId: none
  ShapeId shape = NumberLists::kEmpty;
  NameId dtype = kNoId, device = kNoId;
  bool has_dense_bytes = false;

  std::uint64_t end_ns() const { return saturating_sum(start_ns, duration_ns); }
};

class OpLog {
 public:
  OpLog(TraceTables& tables, SpanTable& spans) : tables_(tables), spans_(spans) {}
  void on_op(const format::Op& op);
  std::uint64_t size() const { return rows_.size(); }
  const OpRow& operator[](std::uint64_t at) const { return rows_[at]; }

 private:
  TraceTables& tables_;
  SpanTable& spans_;
  format::PagedArray<OpRow> rows_{std::size_t{8} << 20};
};

}  // namespace tensortap::analyzers::candle
