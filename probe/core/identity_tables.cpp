#include "probe/core/identity_tables.h"

#include <sys/mman.h>

namespace tensortap::probe {
namespace {

void* map_zeroed(std::uint64_t bytes) noexcept {
  void* mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

std::uint64_t key_of(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

bool BlockTable::create() noexcept {
  keys_ = static_cast<std::atomic<std::uint64_t>*>(map_zeroed(kSlots * sizeof *keys_));
  spilled_ = static_cast<std::atomic<std::uint8_t>*>(map_zeroed(kSlots / kIdentityLine));
  values_ = static_cast<Value*>(map_zeroed(kSlots * sizeof *values_));
  return keys_ != nullptr && spilled_ != nullptr && values_ != nullptr;
}

void BlockTable::clear() noexcept {
  madvise(keys_, kSlots * sizeof *keys_, MADV_DONTNEED);
  madvise(spilled_, kSlots / kIdentityLine, MADV_DONTNEED);
  madvise(values_, kSlots * sizeof *values_, MADV_DONTNEED);
  next_serial_.store(0, std::memory_order_relaxed);
}

std::uint32_t BlockTable::find_further(std::uint64_t key, std::uint32_t first) const noexcept {
  const bool spilled = spilled_[first / kIdentityLine].load(std::memory_order_relaxed) != 0;
  const std::uint32_t window = spilled ? kWindow : kIdentityLine;
  for (std::uint32_t i = 1; i < window; ++i) {
    const std::uint32_t slot = (first + i) & (kSlots - 1);
    if (keys_[slot].load(std::memory_order_acquire) == key) return slot;
  }
  return kNotFound;
}

std::uint64_t BlockTable::put(std::uint64_t key, std::uint64_t bytes, bool unseen,
                              NumberRange& numbers) noexcept {
  const std::uint64_t serial = numbers.take(next_serial_);
  const auto first = static_cast<std::uint32_t>(identity_home<kBits>(key));
  for (std::uint32_t i = 0; i < kWindow; ++i) {
    const std::uint32_t slot = (first + i) & (kSlots - 1);
    if (keys_[slot].load(std::memory_order_relaxed) != 0) continue;
    // Before the key: who knows the block's address comes after us.
    if (i >= kIdentityLine) spilled_[first / kIdentityLine].store(1, std::memory_order_relaxed);
    if (take_slot(slot, key, serial, bytes * 2 + (unseen ? 1 : 0))) return serial;
  }
  return 0;
}

std::uint64_t BlockTable::replace(std::uint64_t key, std::uint64_t bytes, NumberRange& numbers) noexcept {
  const std::uint32_t stale = find_slot(key);
  if (stale != kNotFound) keys_[stale].store(0, std::memory_order_release);
  return put(key, bytes, false, numbers);
}

std::uint64_t BlockTable::find_or_add_unseen(const void* address, std::uint64_t bytes,
                                             NumberRange& numbers) noexcept {
  const std::uint64_t known = find(address);
  return known != 0 ? known : put(key_of(address), bytes, true, numbers);
}

bool TensorTable::create() noexcept {
  keys_ = static_cast<std::atomic<std::uint64_t>*>(map_zeroed(kSlots * sizeof *keys_));
  values_ = static_cast<Value*>(map_zeroed(kSlots * sizeof *values_));
  return keys_ != nullptr && values_ != nullptr;
}

void TensorTable::clear() noexcept {
  madvise(keys_, kSlots * sizeof *keys_, MADV_DONTNEED);
  madvise(values_, kSlots * sizeof *values_, MADV_DONTNEED);
  next_id_.store(0, std::memory_order_relaxed);
}

std::uint64_t TensorTable::look_further(std::uint64_t key, std::uint32_t first, std::uint64_t storage,
                                        NumberRange& numbers, bool& evicted) noexcept {
  constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  std::uint32_t place = kNowhere;
  for (std::uint32_t i = 0; i < kWindow; ++i) {
    const std::uint32_t slot = (first + i) & (kSlots - 1);
    const std::uint64_t seen = keys_[slot].load(std::memory_order_acquire);
    if (seen == key) {
      // The tensor's own slot: the same storage is the same tensor, another storage is its successor.
      const std::uint64_t held = values_[slot].storage.load(std::memory_order_relaxed);
      const std::uint64_t id = values_[slot].id.load(std::memory_order_relaxed);
      if (held == storage && keys_[slot].load(std::memory_order_acquire) == key) return id;
      place = slot;
      break;
    }
    if (seen == 0) {
      place = slot;
      break;
    }
  }
  const std::uint64_t id = numbers.take(next_id_);
  if (place == kNowhere) {
    place = (first + static_cast<std::uint32_t>(id % kWindow)) & (kSlots - 1);
    evicted = true;
  }
  std::uint64_t seen = keys_[place].load(std::memory_order_relaxed);
  if (seen == kBusy || !keys_[place].compare_exchange_strong(seen, kBusy, std::memory_order_acq_rel))
    return id;
  values_[place].storage.store(storage, std::memory_order_relaxed);
  values_[place].id.store(id, std::memory_order_relaxed);
  keys_[place].store(key, std::memory_order_release);
  return id;
}

}  // namespace tensortap::probe
