// How much of a span its children cover, told child by child without keeping them: the length of the union of
// their intervals. The usual orders are exact (one after the other; around all before; into one block); any
// other makes the cover irregular, and the children have to be sorted.
//
//   ChildCover cover;
//   cover.add(10, 20);
//   cover.add(15, 30);
//   cover.covered_ns == 20;
//
// Thread rules: a plain value.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tensortap::analyzers::candle {

struct ChildCover {
  std::uint64_t begin_ns = 0, end_ns = 0;  // of all children so far; equal: none
  std::uint64_t covered_ns = 0;
  bool irregular = false;

  // Once irregular it stays so, and the figures mean nothing.
  void add(std::uint64_t start_ns, std::uint64_t stop_ns) {
    if (stop_ns <= start_ns || irregular) return;
    const bool is_one_block = covered_ns == end_ns - begin_ns;
    if (begin_ns == end_ns || (start_ns <= begin_ns && stop_ns >= end_ns)) {
      begin_ns = start_ns;
      end_ns = stop_ns;
      covered_ns = stop_ns - start_ns;
    } else if (start_ns >= end_ns) {
      covered_ns += stop_ns - start_ns;
      end_ns = stop_ns;
    } else if (stop_ns <= begin_ns) {
      covered_ns += stop_ns - start_ns;
      begin_ns = start_ns;
    } else if (is_one_block) {
      begin_ns = std::min(begin_ns, start_ns);
      end_ns = std::max(end_ns, stop_ns);
      covered_ns = end_ns - begin_ns;
    } else {
      irregular = true;
    }
  }
};

}  // namespace tensortap::analyzers::candle
