// Logical memory per node of the graph (trace/10 specification §4.2): what each span and operation allocated
// itself, and the peak and the rest of what each span's subtree allocated. For a complete and valid capture.
//
//   SpanMemory memory(tables, spans, ops, logical, contract.logical_memory == Coverage::kComplete);
//   if (!memory.status()) …
//   const SpanMemory::Row row = memory[span];
//   memory.of_op(op);                     // bytes, or nothing: not known
//
// How: each lifetime is told to its span and all above it; what begins or ends inside a span goes into a
// sorter by span and time. Memory: bounded; time and temporary disk space grow with lifetimes × depth, up to
// kMostChanges of 24 bytes each; beyond, status() says so. Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzers/candle/logical_memory.h"
#include "analyzers/candle/op_log.h"
#include "analyzers/candle/span_table.h"
#include "analyzers/candle/trace_tables.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"
#include "format/result.h"

namespace tensortap::analyzers::candle {

class SpanMemory {
 public:
  static constexpr std::uint64_t kMostChanges = std::uint64_t{1} << 29;
  static constexpr std::uint64_t kStepsPerChange = 8;  // and so many times as many steps from span to parent

  struct Row {
    std::uint64_t allocated_bytes = 0;  // by lifetimes charged to the span itself
    std::uint64_t peak_live_bytes = 0;  // during the span, of those charged to it or below
    std::uint64_t residual_bytes = 0;   // of these, live at its end
    bool knows_allocated = false, knows_subtree = false;
  };

  // `is_complete`: the contract declares logical memory complete, so that no lifetime means 0 bytes.
  SpanMemory(const TraceTables& tables, const SpanTable& spans, const OpLog& ops,
             const LogicalMemory& logical, bool is_complete, std::uint64_t most_changes = kMostChanges);

  // kUnsupported: spans are nested so deeply that their memory cannot be told.
  const format::Status& status() const { return status_; }
  Row operator[](std::uint32_t span) const { return span < rows_.size() ? rows_[span] : Row{}; }
  // Bytes of the lifetimes charged to an op of the log: known when its name is the only one of its kind in
  // its span, and some lifetime names it.
  std::optional<std::uint64_t> of_op(std::uint64_t op) const;

 private:
  // Something happens to a span's subtree.
  struct Change {
    std::uint64_t at_ns = 0, bytes = 0;
    std::uint32_t span = kNoId;
    bool allocates = false;
  };
  struct InOrder {  // frees of one time come before its allocations
    bool operator()(const Change& a, const Change& b) const {
      if (a.span != b.span) return a.span < b.span;
      return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.allocates < b.allocates;
    }
  };
  struct OpBytes {
    std::uint64_t op = 0, bytes = 0;
  };

  void take(const Lifetime& life);
  void take_inside(std::uint32_t span, const Lifetime& life);
  void find_peaks();
  void charge_ops(const OpLog& ops, const LogicalMemory& logical);

  const SpanTable& spans_;
  std::uint64_t most_changes_, steps_ = 0;
  format::Status status_;
  format::PagedArray<Row> rows_;  // by span
  format::Sorter<Change, InOrder> changes_;
  format::PagedArray<OpBytes> ops_;  // by op
};

}  // namespace tensortap::analyzers::candle
