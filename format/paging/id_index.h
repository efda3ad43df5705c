// Numbers the ids of a stream: 0, 1, 2, … in the order of first sight. Ids that end in a number (`s0.17`,
// `t42`) cost about 20 bytes each, of which all but one lie in a PagedArray; any other id costs its text.
//
//   IdIndex spans;
//   const std::uint32_t a = spans.add("s0.1");          // 0
//   spans.find("s0.2") == IdIndex::kNone;
//   spans.text(a) == "s0.1";
//   spans.for_each_in_order([](std::uint32_t id) { … }); // by the bytes of the ids
//
// Thread rules: one thread at a time, reading too (pages move).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"

namespace tensortap::format {

class IdIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Memory for the pages of ids with a number.
  explicit IdIndex(std::size_t resident_bytes = std::size_t{8} << 20);

  // The id's number, new or old; `is_new` (if given) says which.
  std::uint32_t add(std::string_view id, bool* is_new = nullptr);
  // kNone: never added.
  std::uint32_t find(std::string_view id) const;
  std::string text(std::uint32_t number) const;
  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }

  // < 0, 0, > 0: by the bytes of the texts.
  int compare(std::uint32_t a, std::uint32_t b) const;

  // All numbers, by the bytes of their texts.
  template <class Take>
  void for_each_in_order(Take take) const;

  // For a Sorter of some of the numbers by the bytes of their texts: Sorter<Key, KeyLess>(index.key_less()).
  struct Key {
    std::uint64_t begin = 0, more = 0;  // the first 16 bytes, big-endian
    std::uint32_t id = 0;
  };
  struct KeyLess {
    const IdIndex* index;
    bool operator()(const Key& a, const Key& b) const {
      if (a.begin != b.begin) return a.begin < b.begin;
      if (a.more != b.more) return a.more < b.more;
      return index->compare(a.id, b.id) < 0;
    }
  };
  Key key_of(std::uint32_t id) const;
  KeyLess key_less() const { return {this}; }

 private:
  static constexpr std::uint64_t kBlockIds = 64;
  using Block = std::array<std::uint32_t, kBlockIds>;  // number + 1 of each id, 0: none
  struct Entry {
    std::uint64_t number = 0;
    std::uint32_t prefix = 0;
  };
  struct BlockKey {
    std::uint64_t block = 0;
    std::uint32_t prefix = 0;
    bool operator==(const BlockKey& other) const { return block == other.block && prefix == other.prefix; }
  };
  struct BlockHash {
    std::size_t operator()(const BlockKey& key) const {
      return static_cast<std::size_t>((key.block * 0x9E3779B97F4A7C15u) ^ (key.prefix * 0xC2B2AE3D27D4EB4Fu));
    }
  };

  // A short id as two words that say all of it.
  struct Short {
    std::uint64_t head = 0, tail = 0;
    std::uint32_t length = ~std::uint32_t{0};  // as made: equal to no id
    bool set(std::string_view id);             // false: it is not short
    bool operator==(const Short& other) const {
      return head == other.head && tail == other.tail && length == other.length;
    }
    std::size_t slot() const {
      return static_cast<std::size_t>((head * 0xC2B2AE3D27D4EB4Fu ^ tail * 0x9E3779B97F4A7C15u) >> 56);
    }
  };

  std::uint32_t look_up_or_add(std::string_view id, bool* is_new);
  std::uint32_t look_up(std::string_view id) const;
  std::uint32_t find_prefix(std::string_view prefix) const;
  std::uint32_t find_block(BlockKey key) const;

  std::deque<std::string> prefixes_;
  std::unordered_map<std::string_view, std::uint32_t> prefix_of_;  // views into prefixes_
  std::unordered_map<BlockKey, std::uint32_t, BlockHash> block_of_;
  PagedArray<Block> blocks_;
  PagedArray<Entry> entries_;
  // The usual case: an id of those before, or at least a number near theirs, behind the same prefix.
  struct RecentId {
    Short text;
    std::uint32_t number = kNone;
  };
  struct Recent {
    BlockKey key;
    std::uint32_t block = kNone;
  };
  mutable std::uint32_t last_prefix_ = kNone;
  mutable std::string_view last_prefix_text_;  // into prefixes_
  mutable std::array<Recent, 256> recent_;
  mutable std::array<RecentId, 256> recent_ids_;
};

template <class Take>
void IdIndex::for_each_in_order(Take take) const {
  Sorter<Key, KeyLess> sorter(key_less());
  for (std::uint32_t id = 0; id < size(); ++id) sorter.add(key_of(id));
  sorter.for_each([&](const Key& key) { take(key.id); });
}

}  // namespace tensortap::format
