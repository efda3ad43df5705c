#include "format/paging/id_index.h"

#include <cstring>

#include "format/paging/numbered_id.h"

namespace tensortap::format {
namespace {

// Eight bytes of `text` from `at`, the first the most significant; behind its end zeros.
std::uint64_t eight_bytes(std::string_view text, std::size_t at) {
  std::uint64_t out = 0;
  for (std::size_t i = at; i < at + 8; ++i) {
    out = out << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0);
  }
  return out;
}

}  // namespace

IdIndex::IdIndex(std::size_t resident_bytes)
    : blocks_(resident_bytes / 4), entries_(resident_bytes / 4 * 3) {}

// The bytes of an id of at most 16: its first and last ones may overlap.
bool IdIndex::Short::set(std::string_view id) {
  const std::size_t size = id.size();
  length = static_cast<std::uint32_t>(size);
  if (size > 16) return false;
  if (size >= 8) {
    head = load<std::uint64_t>(id.data());
    tail = load<std::uint64_t>(id.data() + size - 8);
  } else if (size >= 4) {
    head = load<std::uint32_t>(id.data());
    tail = load<std::uint32_t>(id.data() + size - 4);
  } else {
    head = tail = 0;
    if (size != 0) std::memcpy(&head, id.data(), size);
  }
  return true;
}

std::uint32_t IdIndex::find_prefix(std::string_view prefix) const {
  if (last_prefix_ != kNone && last_prefix_text_ == prefix) return last_prefix_;
  const auto found = prefix_of_.find(prefix);
  if (found == prefix_of_.end()) return kNone;
  last_prefix_text_ = found->first;
  return last_prefix_ = found->second;
}

std::uint32_t IdIndex::find_block(BlockKey key) const {
  Recent& recent = recent_[BlockHash()(key) >> 56];
  if (recent.block != kNone && recent.key == key) return recent.block;
  const auto found = block_of_.find(key);
  if (found == block_of_.end()) return kNone;
  recent = {key, found->second};
  return found->second;
}

std::uint32_t IdIndex::add(std::string_view id, bool* is_new) {
  Short text;
  RecentId* recent = text.set(id) ? &recent_ids_[text.slot()] : nullptr;
  if (recent != nullptr && recent->text == text) {
    if (is_new != nullptr) *is_new = false;
    return recent->number;
  }
  const std::uint32_t number = look_up_or_add(id, is_new);
  if (recent != nullptr) *recent = {text, number};
  return number;
}

std::uint32_t IdIndex::find(std::string_view id) const {
  Short text;
  RecentId* recent = text.set(id) ? &recent_ids_[text.slot()] : nullptr;
  if (recent != nullptr && recent->text == text) return recent->number;
  const std::uint32_t number = look_up(id);
  if (recent != nullptr && number != kNone) *recent = {text, number};
  return number;
}

std::uint32_t IdIndex::look_up_or_add(std::string_view id, bool* is_new) {
  const auto [prefix, number] = split_id(id);
  std::uint32_t at = find_prefix(prefix);
  if (at == kNone) {
    at = static_cast<std::uint32_t>(prefixes_.size());
    prefix_of_.emplace(prefixes_.emplace_back(prefix), at);
  }
  const BlockKey key{number / kBlockIds, at};
  std::uint32_t block = find_block(key);
  if (block == kNone) {
    block = static_cast<std::uint32_t>(blocks_.push_back(Block{}));
    block_of_.emplace(key, block);
  }
  const std::size_t slot = number % kBlockIds;
  if (const std::uint32_t known = blocks_[block][slot]; known != 0) {
    if (is_new != nullptr) *is_new = false;
    return known - 1;
  }
  const auto made = static_cast<std::uint32_t>(entries_.push_back({number, at}));
  blocks_.edit(block)[slot] = made + 1;
  if (is_new != nullptr) *is_new = true;
  return made;
}

std::uint32_t IdIndex::look_up(std::string_view id) const {
  const auto [prefix, number] = split_id(id);
  const std::uint32_t at = find_prefix(prefix);
  if (at == kNone) return kNone;
  const std::uint32_t block = find_block({number / kBlockIds, at});
  if (block == kNone) return kNone;
  const std::uint32_t known = blocks_[block][number % kBlockIds];
  return known == 0 ? kNone : known - 1;
}

std::string IdIndex::text(std::uint32_t number) const {
  const Entry entry = entries_[number];
  std::string out = prefixes_[entry.prefix];
  if (entry.number != 0) out += std::to_string(entry.number);
  return out;
}

int IdIndex::compare(std::uint32_t a, std::uint32_t b) const { return a == b ? 0 : text(a).compare(text(b)); }

IdIndex::Key IdIndex::key_of(std::uint32_t id) const {
  const std::string full = text(id);
  return {eight_bytes(full, 0), eight_bytes(full, 8), id};
}

}  // namespace tensortap::format
