#include "analyzers/candle/host_times.h"

#include <algorithm>
#include <optional>

#include "analyzers/candle/top_list.h"
#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {
namespace {

struct Window {
  std::uint64_t begin_ns = 0, end_ns = 0;

  std::uint64_t overlap(std::uint64_t start_ns, std::uint64_t stop_ns) const {
    const std::uint64_t from = std::max(start_ns, begin_ns), to = std::min(stop_ns, end_ns);
    return to > from ? to - from : 0;
  }
  bool holds(const SpanRow& span) const { return span.start_ns >= begin_ns && span.end_ns() <= end_ns; }
};

struct Child {
  std::uint32_t parent = kNoId;
  std::uint64_t start_ns = 0, end_ns = 0;
};
struct ByParentAndStart {
  bool operator()(const Child& a, const Child& b) const {
    return a.parent != b.parent ? a.parent < b.parent : a.start_ns < b.start_ns;
  }
};

// Lengths of a union of intervals that come by ascending start, whole and clipped to the window.
struct Union {
  std::uint64_t covered_ns = 0, overlap_ns = 0, end_ns = 0;

  void add(const Child& child, const Window& window) {
    const std::uint64_t from = std::max(child.start_ns, end_ns);
    if (child.end_ns <= from) return;
    covered_ns += child.end_ns - from;
    overlap_ns += window.overlap(from, child.end_ns);
    end_ns = child.end_ns;
  }
};

class Ranking {
 public:
  Ranking(const TraceTables& tables, const SpanTable& spans, const SpanScope& scope)
      : spans_(spans), scope_(scope), top_(kTopSpans, Before{&tables}) {
    const SpanRow& measured = spans[spans.first_measured()];
    window_ = {measured.start_ns, measured.end_ns()};
  }

  std::vector<HostSpan> rank(const OpLog& ops) {
    bool has_others = false;
    for (std::uint32_t span = 0; span < spans_.size(); ++span) {
      if (!is_candidate(span)) continue;
      if (needs_sorting(span)) {
        has_others = true;
        continue;
      }
      const std::uint64_t covered = spans_[span].cover.covered_ns;
      offer(span, {covered, covered, 0});
    }
    if (has_others) sort_the_others(ops);
    return top_.rows();
  }

 private:
  struct Before {
    const TraceTables* tables;
    bool operator()(const HostSpan& a, const HostSpan& b) const {
      if (a.overlap_self_ns != b.overlap_self_ns) return a.overlap_self_ns > b.overlap_self_ns;
      if (a.self_ns != b.self_ns) return a.self_ns > b.self_ns;
      return tables->spans.compare(a.span, b.span) < 0;
    }
  };

  bool is_candidate(std::uint32_t span) const {
    const Scope scope = scope_[span];
    if (scope != Scope::kMeasuredSubtree && scope != Scope::kConcurrentOverlap) return false;
    const SpanRow& row = spans_[span];
    if (row.kind == format::SpanKind::kOp && row.parent != kNoId) return false;
    return window_.overlap(row.start_ns, row.end_ns()) != 0;
  }
  bool needs_sorting(std::uint32_t span) const {
    const SpanRow& row = spans_[span];
    return row.cover.irregular || (row.cover.covered_ns != 0 && !window_.holds(row));
  }

  void offer(std::uint32_t span, const Union& children) {
    const SpanRow& row = spans_[span];
    HostSpan out{span, scope_[span]};
    out.full_ns = row.duration_ns;
    out.overlap_ns = window_.overlap(row.start_ns, row.end_ns());
    out.self_ns = row.duration_ns - std::min(children.covered_ns, row.duration_ns);
    out.overlap_self_ns = out.overlap_ns - std::min(children.overlap_ns, out.overlap_ns);
    top_.offer(out);
  }

  void sort_the_others(const OpLog& ops) {
    format::Sorter<Child, ByParentAndStart> children;
    const auto add = [&](std::uint32_t parent, std::uint64_t start_ns, std::uint64_t end_ns) {
      if (spans_.is_declared(parent) && is_candidate(parent) && needs_sorting(parent)) {
        children.add({parent, start_ns, end_ns});
      }
    };
    for (std::uint32_t span = 0; span < spans_.size(); ++span) {
      const SpanRow row = spans_[span];
      if (row.declared) add(row.parent, row.start_ns, row.end_ns());
    }
    for (std::uint64_t op = 0; op < ops.size(); ++op) {
      const OpRow& row = ops[op];
      add(row.span, row.start_ns, row.end_ns());
    }
    std::uint32_t parent = kNoId;
    Union covered;
    children.for_each([&](const Child& child) {
      if (child.parent != parent) {
        if (parent != kNoId) offer(parent, covered);
        parent = child.parent;
        covered = {};
      }
      covered.add(child, window_);
    });
    if (parent != kNoId) offer(parent, covered);
  }

  const SpanTable& spans_;
  const SpanScope& scope_;
  Window window_;
  TopList<HostSpan, Before> top_;
};

}  // namespace

std::vector<HostSpan> slowest_host_spans(const TraceTables& tables, const SpanTable& spans, const OpLog& ops,
                                         const SpanScope& scope) {
  return Ranking(tables, spans, scope).rank(ops);
}

}  // namespace tensortap::analyzers::candle
