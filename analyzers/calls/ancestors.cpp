#include "analyzers/calls/ancestors.h"

namespace tensortap::analyzers {

void Ancestors::add(Slot slot, std::uint8_t traits) {
  if (slot >= nodes_.size()) nodes_.resize(slot + std::size_t{1});
  nodes_[slot].up.fill(kNoSlot);
  nodes_[slot].traits = traits;
}

bool Ancestors::set_parent(Slot child, Slot parent) {
  if (last(parent, kNone) == child) return false;
  nodes_[child].up.fill(parent);
  return true;
}

Slot Ancestors::nearest(Slot at, Trait trait) {
  const Slot end = last(at, trait);
  return has(end, trait) ? end : kNoSlot;
}

// The nearest that has the trait, or the root.
Slot Ancestors::last(Slot at, Trait trait) {
  Slot end = at;
  while (!has(end, trait) && nodes_[end].up[trait] != kNoSlot) end = nodes_[end].up[trait];
  while (at != end) {
    Slot& up = nodes_[at].up[trait];
    at = up;
    up = end;
  }
  return end;
}

}  // namespace tensortap::analyzers
