#include "format/health/evidence.h"

#include <array>
#include <string>
#include <utility>

#include "format/text.h"

namespace tensortap::format {
namespace {

constexpr std::uint32_t kNone = SpanTable::kNone;

// Colours of spans while cycles are looked for.
enum Colour : std::uint8_t { kNew, kOnPath, kFine, kLeadsToCycle };

std::string interval(std::uint64_t start_ns, std::uint64_t end_ns) {
  return std::to_string(start_ns) + " to " + std::to_string(end_ns) + " ns";
}

}  // namespace

void SpanEvidence::wait(Item item) {
  SpanTable::Row& row = spans_.edit(item.span);
  item.next = row.evidence;
  if (free_ == kNone) {
    row.evidence = static_cast<std::uint32_t>(waiting_.push_back(item));
  } else {
    row.evidence = free_;
    Item& slot = waiting_.edit(free_);
    free_ = slot.next;
    slot = item;
  }
}

void SpanEvidence::charge(Kind kind, std::uint32_t span, std::uint64_t start_ns, std::uint64_t end_ns,
                          const Place& place) {
  const SpanTable::Row& row = spans_.row(span);
  const bool timed = kind == Kind::kOp || kind == Kind::kMemory;
  if (!timed && row.declared()) return;
  if (row.closed() && start_ns >= row.start_ns && end_ns <= row.end_ns()) return;
  const Item item{start_ns, end_ns, place, kNone, span, kNone, kind};
  if (row.closed()) return judge(item, row);
  wait(item);
}

void SpanEvidence::started(std::uint32_t span) {
  const SpanTable::Row& row = spans_.row(span);
  const std::uint32_t parent = row.parent;
  if (parent == kNone) return;
  const Place place = row.place;
  if (parent != span && spans_.row(parent).declared()) return;
  cycle_possible_ = true;
  if (parent != span) wait({0, 0, place, kNone, parent, span, Kind::kParent});
}

void SpanEvidence::ended(std::uint32_t span) {
  const SpanTable::Row row = spans_.row(span);
  std::uint32_t last = kNone;
  for (std::uint32_t at = row.evidence; at != kNone;) {
    const Item& item = waiting_[at];
    const bool outside = item.start_ns < row.start_ns || item.end_ns > row.end_ns();
    last = at;
    at = item.next;
    if (outside) judge(Item(item), row);
  }
  if (last != kNone) {
    waiting_.edit(last).next = free_;
    free_ = row.evidence;
    spans_.edit(span).evidence = kNone;
  }
  if (row.parent == kNone) return;
  const Item self{row.start_ns, row.end_ns(), row.place, kNone, row.parent, span, Kind::kChild};
  const SpanTable::Row& parent = spans_.row(row.parent);
  if (!parent.closed()) return wait(self);
  judge(self, parent);
}

// The span is closed.
void SpanEvidence::judge(const Item& item, const SpanTable::Row& span) {
  if (item.start_ns >= span.start_ns && item.end_ns <= span.end_ns()) return;
  switch (item.kind) {
    case Kind::kOp:
      return operations_.add(item);
    case Kind::kMemory:
      return memory_.add(item);
    case Kind::kChild:
      spans_.edit(item.child).outside_parent = true;
      outside_parent_.push_back(item.child);
      return;
    default:
      return;
  }
}

PagedArray<std::uint8_t> SpanEvidence::find_cycles() const {
  PagedArray<std::uint8_t> colours;
  if (!cycle_possible_) return colours;
  colours.grow(spans_.size(), kNew);
  for (std::uint32_t begin = 0; begin < spans_.size(); ++begin) {
    // Up to the top, to a span that was judged, or to one of this very path; then along the path once more.
    std::uint32_t at = begin;
    while (at != kNone && colours[at] == kNew) {
      colours.edit(at) = kOnPath;
      at = spans_.row(at).parent;
    }
    const bool cycle = at != kNone && colours[at] != kFine;
    for (at = begin; at != kNone && colours[at] == kOnPath; at = spans_.row(at).parent) {
      colours.edit(at) = cycle ? kLeadsToCycle : kFine;
    }
  }
  return colours;
}

void SpanEvidence::report_spans(IssueList& issues) {
  const PagedArray<std::uint8_t> colours = find_cycles();
  const IdIndex& ids = spans_.ids();
  Sorter<IdIndex::Key, IdIndex::KeyLess> offenders(ids.key_less());
  const auto offends = [&](std::uint32_t span) { offenders.add(ids.key_of(span)); };
  spans_.for_each(SpanTable::State::kOpen, offends);
  spans_.for_each(SpanTable::State::kMentioned, [&](std::uint32_t parent) {
    for (std::uint32_t at = spans_.row(parent).evidence; at != kNone; at = waiting_[at].next) {
      if (waiting_[at].kind == Kind::kParent) offends(waiting_[at].child);
    }
  });
  outside_parent_.for_each(offends);
  for (std::uint32_t span = 0; span < colours.size(); ++span) {
    if (colours[span] == kLeadsToCycle && spans_.row(span).declared()) offends(span);
  }

  std::uint32_t last = kNone;
  offenders.for_each([&](const IdIndex::Key& key) {
    const std::uint32_t span = key.id;
    if (std::exchange(last, span) == span) return;
    const SpanTable::Row row = spans_.row(span);
    const auto named = [&] { return "span " + in_quotes(spans_.id(span)); };
    const auto parent = [&] { return "parent " + in_quotes(spans_.id(row.parent)); };
    if (!row.closed()) {
      issues.error_unless_failed("open_span", row.place, [&] { return named() + " never ended"; });
    }
    if (row.parent != kNone && !spans_.row(row.parent).declared()) {
      issues.error("unknown_parent", row.place,
                   [&] { return "the " + parent() + " of " + named() + " is not in the trace"; });
    }
    if (row.outside_parent) {
      issues.error("child_outside_parent", row.place, [&] {
        const SpanTable::Row above = spans_.row(row.parent);
        return named() + ", " + interval(row.start_ns, row.end_ns()) + ", reaches outside its " + parent() +
               ", " + interval(above.start_ns, above.end_ns());
      });
    }
    if (span < colours.size() && colours[span] == kLeadsToCycle) {
      issues.error("span_cycle", row.place,
                   [&] { return "the parents of " + named() + " lead into a cycle"; });
    }
  });
}

void SpanEvidence::report_unknown(IssueList& issues) {
  static constexpr std::array<std::string_view, 5> kNames = {"op", "tensor", "tensor_stats", "memory",
                                                             "device_interval"};
  Offenders offenders;
  spans_.for_each(SpanTable::State::kMentioned, [&](std::uint32_t span) {
    for (std::uint32_t at = spans_.row(span).evidence; at != kNone; at = waiting_[at].next) {
      if (waiting_[at].kind < Kind::kParent) offenders.add(waiting_[at]);
    }
  });
  offenders.for_each([&](const Item& item) {
    issues.error("unknown_span", item.place, [&] {
      return "the " + std::string(kNames[static_cast<std::size_t>(item.kind)]) +
             " record is charged to span " + in_quotes(spans_.id(item.span)) + ", which is not in the trace";
    });
  });
}

void SpanEvidence::report_outside(IssueList& issues, Offenders& offenders, std::string_view code,
                                  std::string_view what) {
  offenders.for_each([&](const Item& item) {
    issues.error(code, item.place, [&] {
      const SpanTable::Row span = spans_.row(item.span);
      const std::string at = item.kind == Kind::kMemory ? "at " + std::to_string(item.start_ns) + " ns"
                                                        : interval(item.start_ns, item.end_ns);
      return std::string(what) + ", " + at + ", lies outside its span " + in_quotes(spans_.id(item.span)) +
             ", " + interval(span.start_ns, span.end_ns());
    });
  });
}

void SpanEvidence::report_operations(IssueList& issues) {
  report_outside(issues, operations_, "operation_outside_span", "the operation");
}
void SpanEvidence::report_memory(IssueList& issues) {
  report_outside(issues, memory_, "memory_outside_span", "the memory event");
}

}  // namespace tensortap::format
