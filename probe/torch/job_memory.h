// Objects of the job that are read by copying (self_memory.h): how libstdc++ and torch's OrderedDict lay them
// out. What their private members are called is torch's; where they are is measured on objects of our own.
//
// Threads: plain functions and values. No ownership: all is copied. Functions may throw bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "probe/torch/self_memory.h"

namespace tensortap::probe {

// A shared_ptr or weak_ptr: the object, then its control block.
struct RawPointer {
  std::uintptr_t object;
  std::uintptr_t control;
};
static_assert(sizeof(RawPointer) == sizeof(std::shared_ptr<int>));
struct RawControl {
  std::uintptr_t vtable;
  std::int32_t use_count;
  std::int32_t weak_count;
};
struct RawVector {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::uintptr_t capacity;
};
static_assert(sizeof(RawVector) == sizeof(std::vector<int>));

inline constexpr std::size_t kMaxListBytes = 1 << 20;  // of one module's list of children or tensors

template <class T>
T copy_at(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline std::size_t distance_of(const void* from, const void* to) {
  return static_cast<std::size_t>(static_cast<const char*>(to) - static_cast<const char*>(from));
}

// Where the parts of an OrderedDict's item are.
struct ItemLayout {
  std::size_t bytes, key, value;
};
template <class Item>
ItemLayout item_layout(const Item& item) {
  return {sizeof item, distance_of(&item, &item.key()), distance_of(&item, &item.value())};
}

// `items`: the vector of a dictionary, copied. Could that be one?
inline bool is_item_list(const RawVector& items, const ItemLayout& layout) {
  const std::size_t bytes = items.end - items.begin;
  return items.end >= items.begin && bytes <= kMaxListBytes && bytes % layout.bytes == 0;
}

// The texts of copied strings: `from` is where the string stands in the job, `to` the copy. What can't be
// read is as long as it says, with zeros.
std::vector<std::string> read_strings(SelfMemory& memory, const std::vector<SelfMemory::Piece>& strings);

}  // namespace tensortap::probe
