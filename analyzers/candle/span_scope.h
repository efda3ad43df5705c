// Where each span stands to the measured spans (trace/10 specification §4.5, "Measured scope", and the set M
// of §5.6): inside a measured subtree, around it, or neither.
//
//   SpanScope scope(spans);                    // after the last record
//   scope[number] == Scope::kMeasuredSubtree
//
// Any parents are taken, unknown ones and cycles too. Memory: one byte per span, in pages. Thread rules: one
// thread at a time, reading too.
#pragma once

#include <cstdint>
#include <string_view>

#include "analyzers/candle/span_table.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

enum class Scope : std::uint8_t {
  kUnknown,            // not declared, or not yet looked at
  kMeasuredSubtree,    // a measured span or below one
  kAround,             // above a measured span: excluded from the rankings
  kConcurrentOverlap,  // every other
};

class SpanScope {
 public:
  explicit SpanScope(const SpanTable& spans);
  Scope operator[](std::uint32_t span) const {
    return span < scopes_.size() ? scopes_[span] : Scope::kUnknown;
  }

 private:
  void find(const SpanTable& spans, std::uint32_t span);

  format::PagedArray<Scope> scopes_{std::size_t{2} << 20};
};

}  // namespace tensortap::analyzers::candle
