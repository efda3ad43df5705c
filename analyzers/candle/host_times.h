// Host times of spans within the measured window: self times and the slowest spans (trace/10 specification
// §4.5, "Measured scope" and `slowest_host_spans`). For a complete and valid capture: all spans are closed,
// there is one measured span, and children lie inside their parents.
//
//   for (const HostSpan& span : slowest_host_spans(tables, spans, ops, scope)) …
//
// How: nearly every span's cover by its children is known from the pass (ChildCover). The children of the
// others, and of spans that cross the window's border, are sorted by parent and start.
// Memory: bounded. Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzers/candle/op_log.h"
#include "analyzers/candle/span_scope.h"
#include "analyzers/candle/span_table.h"
#include "analyzers/candle/trace_tables.h"

namespace tensortap::analyzers::candle {

inline constexpr std::size_t kTopSpans = 8;

// All times in nanoseconds. "overlap": the part inside the measured span.
struct HostSpan {
  std::uint32_t span = kNoId;
  Scope scope = Scope::kMeasuredSubtree;  // or kConcurrentOverlap
  std::uint64_t self_ns = 0, overlap_self_ns = 0, full_ns = 0, overlap_ns = 0;
};

// At most kTopSpans: by overlap self, then self, both descending, then id.
std::vector<HostSpan> slowest_host_spans(const TraceTables& tables, const SpanTable& spans, const OpLog& ops,
                                         const SpanScope& scope);

}  // namespace tensortap::analyzers::candle
