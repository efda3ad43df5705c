// How much of each span its children do not cover (trace/10 specification §4.5, host_self_time_ns): its
// duration less the length of the union of its child spans and ops. For a complete and valid capture.
//
//   SelfTimes self(spans, ops);
//   self[span];                  // nanoseconds
//
// Nearly every span's cover is known from the pass (ChildCover); the children of the others are sorted.
// Memory: bounded. Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>

#include "analyzers/candle/op_log.h"
#include "analyzers/candle/span_table.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

class SelfTimes {
 public:
  SelfTimes(const SpanTable& spans, const OpLog& ops);
  std::uint64_t operator[](std::uint32_t span) const;

 private:
  void sort_children(const OpLog& ops);

  const SpanTable& spans_;
  format::PagedArray<std::uint64_t> covered_;  // of the irregular ones, by span; empty when there is none
};

}  // namespace tensortap::analyzers::candle
