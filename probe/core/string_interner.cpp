#include "probe/core/string_interner.h"

#include <sched.h>
#include <sys/mman.h>

#include <cstring>

namespace tensortap::probe {

using namespace format;

namespace {

// Names longer than this are cut: no operator's or module's name is, and a hostile one must not fill the
// table.
constexpr std::size_t kMaxText = 4096;
constexpr std::uint32_t kNoRoom = 0xFFFFFFFFu;

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 14695981039346656037u ^ text.size();
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, at, left);
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  return hash == 0 ? 1 : hash;
}

}  // namespace

bool StringInterner::create(SharedMemory* memory) noexcept {
  void* mapped =
      mmap(nullptr, kEntries * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  entries_ = static_cast<Entry*>(mapped);
  memory_ = memory;
  return true;
}

std::string_view StringInterner::text(StrRef ref) const noexcept {
  if (ref >= kStrInline) return {};
  const char* at = memory_->strings + std::uint64_t{ref} * 8;
  std::uint32_t length;
  std::memcpy(&length, at, sizeof length);
  return {at + sizeof length, length};
}

StrRef StringInterner::append(std::string_view text, Share share) noexcept {
  const std::uint64_t room = round_up_8(sizeof(std::uint32_t) + text.size());
  const std::uint64_t cap = share == Share::kAll ? kStringTableBytes : kStringTableBytes / 4 * 3;
  std::atomic<std::uint64_t>& tail = memory_->header->strings_tail;
  std::uint64_t at = tail.load(std::memory_order_relaxed);
  do {
    if (at + room > cap) return kStrInline;
  } while (!tail.compare_exchange_weak(at, at + room, std::memory_order_relaxed));
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(memory_->strings + at, &length, sizeof length);
  std::memcpy(memory_->strings + at + sizeof length, text.data(), text.size());
  return static_cast<StrRef>(at / 8);
}

void StringInterner::clear() noexcept { madvise(entries_, kEntries * sizeof(Entry), MADV_DONTNEED); }

StrRef StringInterner::find_or_add(std::string_view text, Share share) noexcept {
  if (text.empty()) return kStrNone;
  if (text.size() > kMaxText) text = text.substr(0, kMaxText);
  const std::uint64_t hash = hash_of(text);
  for (std::uint32_t probe = 0; probe < kProbes; ++probe) {
    Entry& entry = entries_[(hash + probe) % kEntries];
    std::uint64_t seen = entry.hash.load(std::memory_order_acquire);
    if (seen == 0 && entry.hash.compare_exchange_strong(seen, hash, std::memory_order_acq_rel)) {
      const StrRef ref = append(text, share);
      entry.ref_plus_one.store(ref == kStrInline ? kNoRoom : ref + 1, std::memory_order_release);
      return ref;
    }
    if (seen != hash) continue;
    std::uint32_t ref = entry.ref_plus_one.load(std::memory_order_acquire);
    // Another thread is between claiming the entry and filling it: a few instructions, unless it was
    // preempted.
    for (int spin = 0; ref == 0 && spin < 1000; ++spin) {
      if (spin > 50) sched_yield();
      ref = entry.ref_plus_one.load(std::memory_order_acquire);
    }
    if (ref == 0 || ref == kNoRoom) break;
    if (this->text(ref - 1) == text) return ref - 1;
  }
  memory_->count(Counter::kStringsInline);
  return kStrInline;
}

}  // namespace tensortap::probe
