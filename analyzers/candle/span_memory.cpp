#include "analyzers/candle/span_memory.h"

#include <algorithm>
#include <string>

namespace tensortap::analyzers::candle {
namespace {

std::uint64_t without(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

// Lifetimes and ops that meet at (span, name).
struct Meeting {
  std::uint64_t op = 0;     // of an op
  std::uint64_t bytes = 0;  // of a lifetime
  std::uint32_t span = kNoId;
  NameId name = kNoId;
  bool is_op = false;
};
struct BySpanAndName {
  bool operator()(const Meeting& a, const Meeting& b) const {
    return a.span != b.span ? a.span < b.span : a.name < b.name;
  }
};

// All of one span and name.
struct Meetings {
  std::uint64_t ops = 0, op = 0, lifetimes = 0, bytes = 0;

  void add(const Meeting& one) {
    if (one.is_op) {
      ++ops;
      op = one.op;
    } else {
      ++lifetimes;
      bytes = saturating_sum(bytes, one.bytes);
    }
  }
  bool is_known() const { return ops == 1 && lifetimes != 0; }
};

}  // namespace

SpanMemory::SpanMemory(const TraceTables& tables, const SpanTable& spans, const OpLog& ops,
                       const LogicalMemory& logical, bool is_complete, std::uint64_t most_changes)
    : spans_(spans), most_changes_(most_changes) {
  if (!logical.observed()) return;
  rows_.grow(tables.spans.size(), {0, 0, 0, is_complete, is_complete});
  logical.for_each_lifetime([this](std::uint64_t, const Lifetime& life) { take(life); });
  if (!status_) return;
  find_peaks();
  charge_ops(ops, logical);
}

void SpanMemory::take(const Lifetime& life) {
  Row& own = rows_.edit(life.span);
  own.knows_allocated = true;
  own.allocated_bytes = saturating_sum(own.allocated_bytes, life.bytes);
  for (std::uint32_t span = life.span; span != kNoId && status_.ok(); span = spans_[span].parent) {
    take_inside(span, life);
    if (++steps_ > kStepsPerChange * most_changes_ || changes_.size() > most_changes_) {
      status_ = format::Error{format::ErrorCode::kUnsupported,
                              "the spans are nested too deeply to tell the memory of each: " +
                                  std::to_string(steps_) + " times a storage lies inside a span"};
    }
  }
}

void SpanMemory::take_inside(std::uint32_t span, const Lifetime& life) {
  const std::uint64_t begin_ns = spans_[span].start_ns, end_ns = spans_[span].end_ns();
  Row& row = rows_.edit(span);
  row.knows_subtree = true;
  if (end_ns <= begin_ns || life.start_ns >= end_ns || (!life.open && life.end_ns <= begin_ns)) return;
  if (life.open || life.end_ns > end_ns) row.residual_bytes = saturating_sum(row.residual_bytes, life.bytes);
  if (life.start_ns <= begin_ns) {
    row.peak_live_bytes = saturating_sum(row.peak_live_bytes, life.bytes);  // so far: at the span's start
  } else {
    changes_.add({life.start_ns, life.bytes, span, true});
  }
  if (!life.open && life.end_ns < end_ns) changes_.add({life.end_ns, life.bytes, span, false});
}

void SpanMemory::find_peaks() {
  std::uint32_t span = kNoId;
  std::uint64_t live = 0;
  changes_.for_each([&](const Change& change) {
    Row& row = rows_.edit(change.span);
    if (change.span != span) live = row.peak_live_bytes;
    span = change.span;
    live = change.allocates ? saturating_sum(live, change.bytes) : without(live, change.bytes);
    row.peak_live_bytes = std::max(row.peak_live_bytes, live);
  });
}

void SpanMemory::charge_ops(const OpLog& ops, const LogicalMemory& logical) {
  format::Sorter<Meeting, BySpanAndName> meetings;
  logical.for_each_lifetime([&](std::uint64_t, const Lifetime& life) {
    if (life.op_name != kNoId) meetings.add({0, life.bytes, life.span, life.op_name, false});
  });
  if (meetings.size() == 0) return;
  for (std::uint64_t op = 0; op < ops.size(); ++op) {
    const OpRow& row = ops[op];
    if (rows_[row.span].knows_allocated) meetings.add({op, 0, row.span, row.name, true});
  }
  const auto by_op = [](const OpBytes& a, const OpBytes& b) { return a.op < b.op; };
  format::Sorter<OpBytes, decltype(by_op)> known(by_op);
  Meeting of;
  Meetings all;
  const auto close = [&] {
    if (all.is_known()) known.add({all.op, all.bytes});
    all = {};
  };
  meetings.for_each([&](const Meeting& one) {
    if (one.span != of.span || one.name != of.name) close();
    of = one;
    all.add(one);
  });
  close();
  known.for_each([this](const OpBytes& one) { ops_.push_back(one); });
}

std::optional<std::uint64_t> SpanMemory::of_op(std::uint64_t op) const {
  std::uint64_t begin = 0, end = ops_.size();
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const OpBytes found = ops_[middle];
    if (found.op == op) return found.bytes;
    if (found.op < op) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return std::nullopt;
}

}  // namespace tensortap::analyzers::candle
