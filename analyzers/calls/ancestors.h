// For every span of a forest: the nearest span at or above it that has a given trait (is an operator, is a
// training step, …), however long the way to it is.
//
//   Ancestors ancestors;
//   ancestors.add(1, Ancestors::bit(Ancestors::kOp));
//   ancestors.add(2, 0);
//   ancestors.set_parent(2, 1);
//   Slot op = ancestors.nearest(2, Ancestors::kOp);  // 1
//
// A look-up shortens the way that it went, as union-find does: no input makes it cost more than a few steps
// on average, not even a chain of a hundred thousand spans. Parents may be set late. Memory: 28 bytes a slot.
// Thread rules: one thread at a time, for look-ups too.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tensortap::analyzers {

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = 0xFFFFFFFFu;

class Ancestors {
 public:
  enum Trait : std::uint8_t { kFunction, kOp, kModule, kIteration, kStep };
  static constexpr std::uint8_t bit(Trait trait) { return static_cast<std::uint8_t>(1U << trait); }

  // A new span without a parent. A slot may be used again once nothing is below it.
  void add(Slot slot, std::uint8_t traits);

  // Once for a child, which must not have a parent. False, and nothing is changed, where it would close a
  // ring.
  bool set_parent(Slot child, Slot parent);

  // kNoSlot: none.
  Slot nearest(Slot at, Trait trait);

 private:
  static constexpr Trait kNone = static_cast<Trait>(kStep + 1);  // no span has it: leads to the root

  struct Node {
    // By trait: a span above with none that has the trait between. kNoSlot: the span has no parent.
    std::array<Slot, kNone + 1> up{};
    std::uint8_t traits = 0;
  };

  Slot last(Slot at, Trait trait);
  bool has(Slot slot, Trait trait) const { return (nodes_[slot].traits & bit(trait)) != 0; }

  std::vector<Node> nodes_;
};

}  // namespace tensortap::analyzers
