// What the candle-graph documents are built from, as numbers: ids, names and shapes of one trace, each text
// kept once. All building blocks of one document share one TraceTables, so that a number means the same in
// all of them.
//
//   TraceTables tables;
//   const std::uint32_t span = tables.spans.add("s0.17");   // an IdIndex: paged, about 20 bytes an id
//   const NameId relu = tables.names.add("relu");           // a NameTable: operations, dtypes, devices, …
//   const ShapeId shape = tables.shapes.add(op.shape);      // a NumberLists
//   tables.names.text(relu) == "relu";
//
// Memory: the ids' pages; each distinct name's text; 64 Ki distinct shapes, further ones lie in pages.
// Thread rules: one thread at a time, reading too (pages move).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/paging/id_index.h"
#include "format/paging/paged_array.h"

namespace tensortap::analyzers::candle {

using NameId = std::uint32_t;
using ShapeId = std::uint32_t;
inline constexpr std::uint32_t kNoId = format::IdIndex::kNone;  // no name, no id

// Every distinct text once, without a bound: for the vocabulary of a program (operations, dtypes, devices,
// clocks, streams). Texts that a job makes up as it goes (span names, labels) belong into an IdIndex.
class NameTable {
 public:
  NameId add(std::string_view text);
  // Good as long as the table.
  std::string_view text(NameId id) const { return texts_[id]; }
  NameId size() const { return static_cast<NameId>(texts_.size()); }
  // By the bytes of the texts.
  std::strong_ordering compare(NameId a, NameId b) const {
    if (a == b) return std::strong_ordering::equal;
    return texts_[a].compare(texts_[b]) <=> 0;
  }
  // All names, by the bytes of their texts.
  std::vector<NameId> in_order() const;

 private:
  struct Recent {
    std::string_view text;
    NameId id = kNoId;
  };
  std::deque<std::string> texts_;  // a deque: views into it stay valid
  std::unordered_map<std::string_view, NameId> ids_;
  std::array<Recent, 64> recent_;  // by a hash of three bytes: the same few names come again and again
};

// Lists of numbers (shapes, sets of names) as one number each. Equal lists mostly share a number, but need
// not: compare what they hold. The empty list is always 0.
class NumberLists {
 public:
  static constexpr ShapeId kEmpty = 0;

  explicit NumberLists(std::size_t resident_bytes = std::size_t{2} << 20);
  // Throws std::length_error when all lists together hold 2^32 numbers.
  ShapeId add(std::span<const std::uint64_t> list);
  // Valid until the next call on this table.
  std::span<const std::uint64_t> get(ShapeId id) const;

 private:
  static constexpr std::size_t kMostHashed = std::size_t{1} << 16;

  bool holds(ShapeId id, std::span<const std::uint64_t> list) const;

  format::PagedArray<std::uint64_t> numbers_;              // of each list: its length, then its numbers
  std::unordered_multimap<std::uint64_t, ShapeId> known_;  // by hash
  ShapeId last_ = kEmpty;
  mutable std::vector<std::uint64_t> loaded_;
};

struct TraceTables {
  format::IdIndex spans;
  format::IdIndex tensors;
  format::IdIndex storages;
  format::IdIndex labels{std::size_t{4} << 20};  // names of spans, labels of tensors
  NameTable names;                               // operations, dtypes, devices, clocks, streams, backends
  NumberLists shapes;
};

// A text's first 16 bytes as numbers, to sort ids by their bytes without fetching the texts each time:
// `if (a.key != b.key) return a.key < b.key; return tables.spans.compare(a.span, b.span) < 0;`
struct TextKey {
  std::uint64_t begin = 0, more = 0;
  explicit TextKey(std::string_view text = {});
  auto operator<=>(const TextKey&) const = default;
};

}  // namespace tensortap::analyzers::candle
