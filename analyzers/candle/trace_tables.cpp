#include "analyzers/candle/trace_tables.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tensortap::analyzers::candle {
namespace {

std::size_t recent_slot(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  return (text.size() * 7 + byte(text.size() / 2) * 3 + byte(text.size() - 1) * 5u) % 64;
}

std::uint64_t hash_of(std::span<const std::uint64_t> list) {
  std::uint64_t hash = list.size();
  for (const std::uint64_t number : list) {
    hash = (hash ^ number) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

NameId NameTable::add(std::string_view text) {
  Recent& recent = recent_[recent_slot(text)];
  if (recent.id != kNoId && recent.text == text) return recent.id;
  auto found = ids_.find(text);
  if (found == ids_.end()) {
    texts_.emplace_back(text);
    found = ids_.emplace(texts_.back(), static_cast<NameId>(texts_.size() - 1)).first;
  }
  recent = {found->first, found->second};
  return found->second;
}

std::vector<NameId> NameTable::in_order() const {
  std::vector<NameId> names(texts_.size());
  std::iota(names.begin(), names.end(), 0u);
  std::sort(names.begin(), names.end(), [&](NameId a, NameId b) { return texts_[a] < texts_[b]; });
  return names;
}

NumberLists::NumberLists(std::size_t resident_bytes) : numbers_(resident_bytes) { numbers_.push_back(0); }

bool NumberLists::holds(ShapeId id, std::span<const std::uint64_t> list) const {
  if (numbers_[id] != list.size()) return false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (numbers_[id + 1 + i] != list[i]) return false;
  }
  return true;
}

ShapeId NumberLists::add(std::span<const std::uint64_t> list) {
  if (list.empty()) return kEmpty;
  if (holds(last_, list)) return last_;
  const std::uint64_t hash = hash_of(list);
  const auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (holds(it->second, list)) return last_ = it->second;
  }
  const std::uint64_t at = numbers_.size();
  if (at + list.size() >= kNoId) throw std::length_error("the trace holds too many different shapes");
  numbers_.push_back(list.size());
  for (const std::uint64_t number : list) numbers_.push_back(number);
  last_ = static_cast<ShapeId>(at);
  if (known_.size() < kMostHashed) known_.emplace(hash, last_);
  return last_;
}

std::span<const std::uint64_t> NumberLists::get(ShapeId id) const {
  loaded_.resize(numbers_[id]);
  for (std::size_t i = 0; i < loaded_.size(); ++i) loaded_[i] = numbers_[id + 1 + i];
  return loaded_;
}

TextKey::TextKey(std::string_view text) {
  const auto eight = [&](std::size_t at) {
    std::uint64_t out = 0;
    for (std::size_t i = at; i < at + 8; ++i)
      out = out << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
    return out;
  };
  begin = eight(0);
  more = eight(8);
}

}  // namespace tensortap::analyzers::candle
