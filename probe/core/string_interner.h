// The session's string table, seen from the job: text → StrRef, lock-free, the same text always the same
// reference.
//
// The table is append-only and capped (ring_layout.h). Ranges that users name may fill three quarters of it;
// the rest is kept for operators, modules and nodes, whose names are few. Beyond that `find_or_add` says
// kStrInline and the caller writes the text into its record.
//
// Thread rules: any thread. The index (16 bytes an entry) is ordinary memory of the job, made once.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "format/ring_record.h"
#include "probe/core/shared_memory.h"

namespace tensortap::probe {

class StringInterner {
 public:
  bool create(SharedMemory* memory) noexcept;
  // Empty again, its memory given back. No thread may be inside.
  void clear() noexcept;

  enum class Share : std::uint8_t { kAll, kThreeQuarters };
  format::StrRef find_or_add(std::string_view text, Share share = Share::kAll) noexcept;

  std::string_view text(format::StrRef ref) const noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> hash;
    std::atomic<std::uint32_t> ref_plus_one;
  };
  static constexpr std::uint32_t kEntries = 1u << 17;
  static constexpr std::uint32_t kProbes = 64;

  format::StrRef append(std::string_view text, Share share) noexcept;

  SharedMemory* memory_ = nullptr;
  Entry* entries_ = nullptr;
};

}  // namespace tensortap::probe
