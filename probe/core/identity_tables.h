// Who is who: storage blocks by address and tensors by (TensorImpl address, storage), lock-free and of fixed
// size.
//
// BlockTable: live storage blocks. The allocator never hands one address out twice at a time, so an address
// is a key while its block lives; each lifetime gets a serial number of its own. A block first seen as some
// tensor's storage (allocated before the window, or not by torch's allocator) gets one too, marked `unseen`.
//
// TensorTable: nothing tells of a TensorImpl's death, so a number belongs to a pair (impl address, storage
// lifetime). Two live tensors never share a number: their addresses differ. A dead tensor's number may pass
// to a later one at the same address on the same storage; a pair that was evicted (table full in its
// neighbourhood: counted) gets a new number.
//
// Both: open addressing over neighbouring slots, claim by compare-exchange, delete by clearing the key. Most
// keys lie in the first four slots of their neighbourhood; the others have left a mark there. Numbers are
// handed to threads by the hundred (NumberRange), so they tell nothing of an order between threads.
//
// Thread rules: any thread, no lock, no allocation after create(). Addresses are compared, never followed.
#pragma once

#include <atomic>
#include <cstdint>

namespace tensortap::probe {

// One thread's share of a table's numbers.
class NumberRange {
 public:
  std::uint64_t take(std::atomic<std::uint64_t>& source) noexcept {
    if (next_ == end_) {
      next_ = source.fetch_add(kShare, std::memory_order_relaxed);
      end_ = next_ + kShare;
    }
    return ++next_;
  }

 private:
  static constexpr std::uint64_t kShare = 128;
  std::uint64_t next_ = 0, end_ = 0;
};

// First slot of the neighbourhood, out of 2^bits. Addresses of one page stay together (64 lines, each of four
// slots and 64 bytes of addresses): a loop that allocates and frees touches few lines. Pages are scattered,
// and so are blocks that all begin at the same place in theirs.
inline constexpr std::uint32_t kIdentityLine = 4;
template <unsigned kBits>
std::uint64_t identity_home(std::uint64_t key) noexcept {
  const std::uint64_t page = (key >> 12) * 0x9E3779B97F4A7C15u >> (64 - (kBits - 2));
  return (page ^ (key >> 6 & 63)) * kIdentityLine;
}

class BlockTable {
 public:
  struct Block {
    std::uint64_t serial = 0;  // 0 = not found
    std::uint64_t bytes = 0;
    bool unseen = false;
  };
  bool create() noexcept;
  // Empty again, its memory given back. No thread may be inside.
  void clear() noexcept;

  // A new lifetime at `address`; replaces a stale one. 0: no room in the neighbourhood.
  std::uint64_t add(const void* address, std::uint64_t bytes, NumberRange& numbers) noexcept {
    const auto key = reinterpret_cast<std::uint64_t>(address);
    const std::uint64_t first = identity_home<kBits>(key);
    const std::atomic<std::uint64_t>* keys = keys_ + first;
    // Usually the first slot is free, and the address not known: neither in the line nor behind it.
    bool unusual = keys[0].load(std::memory_order_acquire) != 0;
    for (std::uint32_t i = 1; i < kIdentityLine; ++i)
      unusual |= keys[i].load(std::memory_order_acquire) == key;
    unusual |= spilled_[first / kIdentityLine].load(std::memory_order_relaxed) != 0;
    if (__builtin_expect(!unusual, 1)) {
      const std::uint64_t serial = numbers.take(next_serial_);
      if (__builtin_expect(take_slot(first, key, serial, bytes * 2), 1)) return serial;
    }
    return replace(key, bytes, numbers);
  }
  // The lifetime at `address`; 0: none is known.
  std::uint64_t find(const void* address) const noexcept {
    const auto key = reinterpret_cast<std::uint64_t>(address);
    const std::uint32_t slot = find_slot(key);
    return slot == kNotFound ? 0 : values_[slot].serial.load(std::memory_order_relaxed);
  }
  // The lifetime at `address`, made as `unseen` when there is none.
  std::uint64_t find_or_add_unseen(const void* address, std::uint64_t bytes, NumberRange& numbers) noexcept;
  Block remove(const void* address) noexcept {
    const std::uint32_t slot = find_slot(reinterpret_cast<std::uint64_t>(address));
    if (__builtin_expect(slot == kNotFound, 0)) return {};
    Block block;
    const std::uint64_t value = values_[slot].bytes_and_mark.load(std::memory_order_relaxed);
    block.serial = values_[slot].serial.load(std::memory_order_relaxed);
    block.bytes = value / 2;
    block.unseen = (value & 1) != 0;
    keys_[slot].store(0, std::memory_order_release);
    return block;
  }

 private:
  static constexpr unsigned kBits = 18;
  static constexpr std::uint32_t kSlots = 1u << kBits;
  static constexpr std::uint32_t kWindow = 32;
  static constexpr std::uint32_t kNotFound = ~std::uint32_t{0};
  static constexpr std::uint64_t kBusy = ~std::uint64_t{0};  // claimed, values not yet there
  struct Value {
    std::atomic<std::uint64_t> serial;
    std::atomic<std::uint64_t> bytes_and_mark;  // bytes * 2 + unseen
  };
  std::uint64_t put(std::uint64_t key, std::uint64_t bytes, bool unseen, NumberRange& numbers) noexcept;
  std::uint64_t replace(std::uint64_t key, std::uint64_t bytes, NumberRange& numbers) noexcept;
  bool take_slot(std::uint64_t slot, std::uint64_t key, std::uint64_t serial,
                 std::uint64_t bytes_and_mark) noexcept {
    std::uint64_t seen = 0;
    if (!keys_[slot].compare_exchange_strong(seen, kBusy, std::memory_order_acq_rel)) return false;
    values_[slot].serial.store(serial, std::memory_order_relaxed);
    values_[slot].bytes_and_mark.store(bytes_and_mark, std::memory_order_relaxed);
    keys_[slot].store(key, std::memory_order_release);
    return true;
  }
  std::uint32_t find_slot(std::uint64_t key) const noexcept {
    const std::uint64_t first = identity_home<kBits>(key);
    if (__builtin_expect(keys_[first].load(std::memory_order_acquire) == key, 1)) {
      return static_cast<std::uint32_t>(first);
    }
    return find_further(key, static_cast<std::uint32_t>(first));
  }
  std::uint32_t find_further(std::uint64_t key, std::uint32_t first) const noexcept;

  std::atomic<std::uint64_t>* keys_ = nullptr;
  std::atomic<std::uint8_t>* spilled_ = nullptr;  // per line: a key of this home was put behind it, once
  Value* values_ = nullptr;
  std::atomic<std::uint64_t> next_serial_{0};
};

class TensorTable {
 public:
  bool create() noexcept;
  void clear() noexcept;  // as above
  // The number of the tensor at `impl` on storage lifetime `storage`. `evicted` becomes true when another
  // tensor lost its number for it.
  std::uint64_t id(const void* impl, std::uint64_t storage, NumberRange& numbers, bool& evicted) noexcept {
    const auto key = reinterpret_cast<std::uint64_t>(impl);
    const std::uint64_t first = identity_home<kBits>(key);
    if (__builtin_expect(keys_[first].load(std::memory_order_acquire) == key, 1)) {
      const std::uint64_t held = values_[first].storage.load(std::memory_order_relaxed);
      const std::uint64_t id = values_[first].id.load(std::memory_order_relaxed);
      if (held == storage && keys_[first].load(std::memory_order_acquire) == key) return id;
    }
    // Another storage at this address is another tensor, the usual case for a new one.
    return look_further(key, static_cast<std::uint32_t>(first), storage, numbers, evicted);
  }

 private:
  static constexpr unsigned kBits = 17;
  static constexpr std::uint32_t kSlots = 1u << kBits;
  static constexpr std::uint32_t kWindow = 16;
  static constexpr std::uint64_t kBusy = ~std::uint64_t{0};
  struct Value {
    std::atomic<std::uint64_t> storage;
    std::atomic<std::uint64_t> id;
  };
  std::uint64_t look_further(std::uint64_t key, std::uint32_t first, std::uint64_t storage,
                             NumberRange& numbers, bool& evicted) noexcept;

  std::atomic<std::uint64_t>* keys_ = nullptr;
  Value* values_ = nullptr;
  std::atomic<std::uint64_t> next_id_{0};
};

}  // namespace tensortap::probe
