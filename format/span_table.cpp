#include "format/span_table.h"

namespace tensortap::format {

static_assert(sizeof(SpanTable::Row) == 64);

void SpanTable::add_row() {
  const auto span = static_cast<std::uint32_t>(rows_.push_back(Row{}));
  link(span, State::kMentioned);
}

void SpanTable::link(std::uint32_t span, State state) {
  std::uint32_t& first = state == State::kOpen ? open_ : mentioned_;
  Row& row = rows_.edit(span);
  row.state = state;
  row.before = kNone;
  row.after = first;
  if (first != kNone) rows_.edit(first).before = span;
  first = span;
}

void SpanTable::unlink(std::uint32_t span) {
  const Row row = rows_[span];
  std::uint32_t& first = row.state == State::kOpen ? open_ : mentioned_;
  if (row.before == kNone) {
    first = row.after;
  } else {
    rows_.edit(row.before).after = row.after;
  }
  if (row.after != kNone) rows_.edit(row.after).before = row.before;
}

void SpanTable::declare(std::uint32_t span, const SpanStart& start, const Place& place) {
  const std::uint32_t parent = start.parent_id ? number(*start.parent_id) : kNone;
  unlink(span);
  link(span, State::kOpen);
  Row& row = rows_.edit(span);
  row.start_ns = start.start_ns;
  row.place = place;
  row.parent = parent;
}

void SpanTable::close(std::uint32_t span, std::uint64_t duration_ns) {
  unlink(span);
  Row& row = rows_.edit(span);
  row.state = State::kClosed;
  row.duration_ns = duration_ns;
  row.before = row.after = kNone;
}

}  // namespace tensortap::format
