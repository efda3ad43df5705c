#include "analyzers/candle/self_times.h"

#include <algorithm>

#include "format/paging/sorter.h"

namespace tensortap::analyzers::candle {
namespace {

struct Child {
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint32_t parent = kNoId;
};
struct ByParentAndStart {
  bool operator()(const Child& a, const Child& b) const {
    return a.parent != b.parent ? a.parent < b.parent : a.start_ns < b.start_ns;
  }
};

}  // namespace

SelfTimes::SelfTimes(const SpanTable& spans, const OpLog& ops) : spans_(spans) {
  bool any_irregular = false;
  for (std::uint32_t span = 0; span < spans.size() && !any_irregular; ++span)
    any_irregular = spans[span].cover.irregular;
  if (any_irregular) sort_children(ops);
}

void SelfTimes::sort_children(const OpLog& ops) {
  format::Sorter<Child, ByParentAndStart> children;
  const auto add = [&](std::uint32_t parent, std::uint64_t start_ns, std::uint64_t end_ns) {
    if (spans_.is_declared(parent) && spans_[parent].cover.irregular)
      children.add({start_ns, end_ns, parent});
  };
  for (std::uint32_t span = 0; span < spans_.size(); ++span) {
    const SpanRow row = spans_[span];
    if (row.declared) add(row.parent, row.start_ns, row.end_ns());
  }
  for (std::uint64_t op = 0; op < ops.size(); ++op) {
    const OpRow row = ops[op];
    add(row.span, row.start_ns, row.end_ns());
  }
  covered_.grow(spans_.size());
  std::uint32_t parent = kNoId;
  std::uint64_t until_ns = 0;
  children.for_each([&](const Child& child) {
    if (child.parent != parent) until_ns = 0;
    parent = child.parent;
    const std::uint64_t from_ns = std::max(child.start_ns, until_ns);
    if (child.end_ns <= from_ns) return;
    covered_.edit(parent) += child.end_ns - from_ns;
    until_ns = child.end_ns;
  });
}

std::uint64_t SelfTimes::operator[](std::uint32_t span) const {
  const SpanRow& row = spans_[span];
  const std::uint64_t covered = row.cover.irregular ? covered_[span] : row.cover.covered_ns;
  return row.duration_ns - std::min(row.duration_ns, covered);
}

}  // namespace tensortap::analyzers::candle
