// The spans that allocated the most logical memory themselves, and the greatest live memory of each one's
// subtree (trace/10 specification §4.2, and `heaviest_spans` of §4.5). For a complete and valid capture.
//
//   for (const HeavySpan& span : heaviest_spans(tables, spans, scope, logical, complete)) …
//
// Memory: bounded; one pass over the lifetimes for the sums, one for the peaks. Thread rules: one thread at a
// time.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzers/candle/logical_memory.h"
#include "analyzers/candle/span_scope.h"
#include "analyzers/candle/span_table.h"
#include "analyzers/candle/trace_tables.h"

namespace tensortap::analyzers::candle {

struct HeavySpan {
  std::uint32_t span = kNoId;
  std::uint64_t allocated_bytes = 0;  // of lifetimes charged to the span itself
  std::uint64_t peak_live_bytes = 0;  // of those charged to it or to a descendant, during the span
};

// At most kTopSpans: by allocated bytes descending, then id. `is_complete`: the contract's logical_memory is
// complete, so that a span without lifetimes allocated 0 bytes; otherwise its figure is unknown and it is no
// candidate.
std::vector<HeavySpan> heaviest_spans(const TraceTables& tables, const SpanTable& spans,
                                      const SpanScope& scope, const LogicalMemory& logical, bool is_complete);

}  // namespace tensortap::analyzers::candle
