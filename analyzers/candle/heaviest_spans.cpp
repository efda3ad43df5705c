#include "analyzers/candle/heaviest_spans.h"

#include <algorithm>
#include <cstddef>

#include "analyzers/candle/host_times.h"
#include "analyzers/candle/top_list.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {
namespace {

struct Direct {
  std::uint64_t bytes = 0;
  bool known = false;
};

struct HeavierThenId {
  const TraceTables* tables;
  bool operator()(const HeavySpan& a, const HeavySpan& b) const {
    if (a.allocated_bytes != b.allocated_bytes) return a.allocated_bytes > b.allocated_bytes;
    return tables->spans.compare(a.span, b.span) < 0;
  }
};

std::vector<HeavySpan> choose(const TraceTables& tables, const SpanTable& spans, const SpanScope& scope,
                              const LogicalMemory& logical, bool is_complete) {
  format::PagedArray<Direct> direct;
  direct.grow(spans.size(), {0, is_complete});
  logical.for_each_lifetime([&](std::uint64_t, const Lifetime& life) {
    Direct& sum = direct.edit(life.span);
    sum.bytes = saturating_sum(sum.bytes, life.bytes);
    sum.known = true;
  });
  TopList<HeavySpan, HeavierThenId> top(kTopSpans, HeavierThenId{&tables});
  for (std::uint32_t span = 0; span < spans.size(); ++span) {
    if (scope[span] != Scope::kMeasuredSubtree || !direct[span].known) continue;
    const SpanRow& row = spans[span];
    if (row.kind != format::SpanKind::kOp || row.parent == kNoId) top.offer({span, direct[span].bytes});
  }
  return top.rows();
}

// For every span the set of the chosen ones in whose subtree it is, as bits.
class Membership {
 public:
  Membership(const SpanTable& spans, const std::vector<HeavySpan>& chosen) : spans_(spans) {
    sets_.grow(spans.size(), kUnknown);
    for (std::size_t i = 0; i < chosen.size(); ++i) own_.push_back({chosen[i].span, 1u << i});
  }
  std::uint32_t operator[](std::uint32_t span) {
    std::uint32_t top = span;
    while (spans_.is_declared(top) && sets_[top] == kUnknown) top = spans_[top].parent;
    const std::uint32_t above = spans_.is_declared(top) ? sets_[top] : 0;
    return top == span ? above : fill(span, top, above);
  }

 private:
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  struct Own {
    std::uint32_t span, bit;
  };

  // The way from `span` up to `top` (without it), whose set is `above`: from below, so what a span higher up
  // adds goes to all that were passed.
  std::uint32_t fill(std::uint32_t span, std::uint32_t top, std::uint32_t above) {
    path_.clear();
    for (std::uint32_t at = span; at != top; at = spans_[at].parent) path_.push_back(at);
    for (std::size_t i = path_.size(); i-- > 0;) {
      for (const Own& own : own_) above |= own.span == path_[i] ? own.bit : 0;
      sets_.edit(path_[i]) = above;
    }
    return above;
  }

  const SpanTable& spans_;
  std::vector<Own> own_;
  std::vector<std::uint32_t> path_;
  format::PagedArray<std::uint32_t> sets_;
};

struct Change {
  std::uint32_t which = 0;  // of the chosen spans
  bool adds = false;
  std::uint64_t at_ns = 0, bytes = 0;
};
struct InOrder {
  bool operator()(const Change& a, const Change& b) const {
    if (a.which != b.which) return a.which < b.which;
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.adds < b.adds;
  }
};

// Live bytes of one chosen span's subtree. Frees of one time are taken off before its allocations are added,
// never below 0 (§4.2): a lifetime without length shows when no more than it is live.
class LiveBytes {
 public:
  void start_with(std::uint64_t bytes) { now_ = peak_ = saturating_sum(now_, bytes); }
  void apply(const Change& change) {
    if (change.at_ns != at_ns_ || (allocated_ != 0 && !change.adds)) settle();
    at_ns_ = change.at_ns;
    std::uint64_t& sum = change.adds ? allocated_ : freed_;
    sum = saturating_sum(sum, change.bytes);
  }
  std::uint64_t peak() {
    settle();
    return peak_;
  }

 private:
  void settle() {
    now_ = saturating_sum(now_ - std::min(now_, freed_), allocated_);
    peak_ = std::max(peak_, now_);
    freed_ = allocated_ = 0;
  }

  std::uint64_t now_ = 0, peak_ = 0, at_ns_ = 0, freed_ = 0, allocated_ = 0;
};

void find_peaks(const SpanTable& spans, const LogicalMemory& logical, std::vector<HeavySpan>& chosen) {
  Membership membership(spans, chosen);
  format::Sorter<Change, InOrder> changes;
  std::vector<LiveBytes> live(chosen.size());
  logical.for_each_lifetime([&](std::uint64_t, const Lifetime& life) {
    const std::uint32_t set = membership[life.span];
    for (std::uint32_t i = 0; set >> i != 0; ++i) {
      const std::uint64_t begin_ns = spans[chosen[i].span].start_ns, end_ns = spans[chosen[i].span].end_ns();
      const bool is_over = !life.open && life.end_ns <= begin_ns;
      if ((set >> i & 1u) == 0 || life.start_ns >= end_ns || is_over) continue;
      if (life.start_ns <= begin_ns) {
        live[i].start_with(life.bytes);
      } else {
        changes.add({i, true, life.start_ns, life.bytes});
      }
      if (!life.open && life.end_ns < end_ns) changes.add({i, false, life.end_ns, life.bytes});
    }
  });
  changes.for_each([&](const Change& change) { live[change.which].apply(change); });
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i].peak_live_bytes = live[i].peak();
}

}  // namespace

std::vector<HeavySpan> heaviest_spans(const TraceTables& tables, const SpanTable& spans,
                                      const SpanScope& scope, const LogicalMemory& logical,
                                      bool is_complete) {
  if (!logical.observed()) return {};
  std::vector<HeavySpan> chosen = choose(tables, spans, scope, logical, is_complete);
  find_peaks(spans, logical, chosen);
  return chosen;
}

}  // namespace tensortap::analyzers::candle
