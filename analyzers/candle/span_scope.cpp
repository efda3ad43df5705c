#include "analyzers/candle/span_scope.h"

namespace tensortap::analyzers::candle {

SpanScope::SpanScope(const SpanTable& spans) {
  scopes_.grow(spans.size(), Scope::kUnknown);
  for (std::uint32_t span = 0; span < spans.size(); ++span) find(spans, span);
  for (std::uint32_t span = 0; span < spans.size(); ++span) {
    if (!spans[span].declared || !spans[span].measured) continue;
    // Upwards until a span that is marked already: each is marked once.
    for (std::uint32_t above = spans[span].parent; spans.is_declared(above);) {
      if (scopes_[above] != Scope::kConcurrentOverlap) break;
      scopes_.edit(above) = Scope::kAround;
      above = spans[above].parent;
    }
  }
}

// Up to the first span that is known, measured, or was passed before; then all on the way are known too.
void SpanScope::find(const SpanTable& spans, std::uint32_t span) {
  Scope found = Scope::kConcurrentOverlap;
  std::uint32_t top = span;
  while (spans.is_declared(top) && scopes_[top] == Scope::kUnknown) {
    const SpanRow& row = spans[top];
    if (row.measured) found = Scope::kMeasuredSubtree;
    scopes_.edit(top) = found;  // for now: it ends a cycle
    if (row.measured) break;
    top = row.parent;
  }
  if (spans.is_declared(top)) found = scopes_[top];
  for (std::uint32_t below = span; below != top; below = spans[below].parent) scopes_.edit(below) = found;
}

}  // namespace tensortap::analyzers::candle
