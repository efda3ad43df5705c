#include "analyzers/candle/span_table.h"

#include <string_view>

namespace tensortap::analyzers::candle {
namespace {

bool reads_like_a_node(std::string_view id) {
  return id.substr(0, 7) == "tensor/" || id.find("/op/") != std::string_view::npos;
}

}  // namespace

void SpanTable::on_span_start(const format::SpanStart& start) {
  const std::uint32_t number = tables_.spans.add(start.id);
  const std::uint32_t parent = start.parent_id ? tables_.spans.add(*start.parent_id) : kNoId;
  const std::uint32_t name = tables_.labels.add(start.name);
  SpanRow& span = row(number);
  if (span.declared) return;  // the stream is refused for it
  span.start_ns = start.start_ns;
  span.parent = parent;
  span.name = name;
  span.kind = start.span_kind;
  span.measured = start.measured;
  span.declared = true;
  ++declared_;
  if (reads_like_a_node(start.id)) node_like_.push_back(number);
}

void SpanTable::on_span_end(const format::SpanEnd& end) {
  const std::uint32_t number = tables_.spans.add(end.id);
  SpanRow& span = row(number);
  if (!span.declared || span.closed) return;
  span.duration_ns = end.duration_ns;
  span.closed = true;
  const std::uint64_t start_ns = span.start_ns, end_ns = span.end_ns();
  const std::uint32_t parent = span.parent;
  if (span.measured) ++closed_measured_;
  if (span.measured && (first_measured_ == kNoId || tables_.spans.compare(number, first_measured_) < 0)) {
    first_measured_ = number;
  }
  if (parent != kNoId) row(parent).cover.add(start_ns, end_ns);
}

std::uint32_t SpanTable::on_op(std::uint32_t span, const format::Op& op) {
  SpanRow& owner = row(span);
  owner.cover.add(op.timestamp_ns, saturating_sum(op.timestamp_ns, op.duration_ns));
  return owner.op_count++;
}

}  // namespace tensortap::analyzers::candle
