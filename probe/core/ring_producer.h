// The writing end of one ring: reserve, fill, commit. One thread at a time; wait-free but for the pool's
// bitmap.
//
//   if (auto* record = ring.reserve(bytes)) { …fill… ; ring.commit(bytes); }
//
// A full ring drops the newest record (counted by cause), or its thread waits while somebody drains
// (SharedMemory::wait_for_room). Never dropped is an end of a span: whoever writes a span's
// start says `keep_end(+1)`, and as long as ends are owed, the ring keeps a spare segment that only ends may
// use. A segment holds 819 ends, more than the deepest stack (kMaxFrames).
#pragma once

#include <atomic>
#include <cstdint>

#include "format/ring_layout.h"
#include "format/ring_record.h"
#include "probe/core/shared_memory.h"

namespace tensortap::probe {

class RingProducer {
 public:
  void attach(SharedMemory* memory, std::uint32_t index) noexcept {
    memory_ = memory;
    index_ = index;
    header_ = &memory->rings[index];
    head_ = header_->head.load(std::memory_order_relaxed);
    const std::uint64_t within = head_ % format::kSegmentBytes;
    const std::uint32_t segment = header_->segment[slot(head_)].load(std::memory_order_relaxed);
    // A ring that is used again goes on in its last segment, when that was not given back.
    base_ = within != 0 && segment != 0 ? memory->segment(segment) : nullptr;
    if (base_ == nullptr && within != 0) head_ += format::kSegmentBytes - within;
    spare_ = 0;
    owed_ends_ = 0;
    fresh_ = false;
    measure_room();
  }

  std::uint32_t index() const noexcept { return index_; }
  format::RingHeader* header() const noexcept { return header_; }
  std::uint64_t next_span() noexcept { return ++header_->next_span; }

  // Room for any record but a span's end; nullptr: dropped and counted.
  unsigned char* reserve(std::uint32_t bytes) noexcept {
    add(header_->offered);
    if (__builtin_expect(bytes > room_, 0) && !make_room(bytes)) return nullptr;
    return base_ + head_ % format::kSegmentBytes;
  }

  // Room for the end of a span whose start was stored; always there.
  unsigned char* reserve_end() noexcept {
    add(header_->offered);
    if (!fits(sizeof(format::SpanEndRecord)) && !use_spare() && !next_segment(0)) return nullptr;
    return base_ + head_ % format::kSegmentBytes;
  }

  // Before a span's start is written: can its end be promised? False: dropped and counted.
  bool promise_end() noexcept {
    if (spare_ == 0) spare_ = memory_->take_segment();
    for (std::uint64_t since = 0; spare_ == 0 && wait_a_moment(since);) spare_ = memory_->take_segment();
    if (spare_ != 0) {
      ++owed_ends_;
      measure_room();
      return true;
    }
    add(header_->offered);
    add(header_->dropped[static_cast<std::uint32_t>(format::DropCause::kRingFull)]);
    return false;
  }
  // After the commit of an end: its own bytes and those it was owed.
  void end_written() noexcept {
    --owed_ends_;
    measure_room();
  }
  void drop(format::DropCause cause) noexcept {
    add(header_->offered);
    add(header_->dropped[static_cast<std::uint32_t>(cause)]);
  }

  void commit(std::uint32_t bytes) noexcept {
    head_ += bytes;
    room_ -= bytes;
    fresh_ = false;
    add(header_->stored);
    header_->head.store(head_, std::memory_order_release);
  }

  // The thread is gone: what it held in reserve goes back.
  void detach() noexcept {
    if (spare_ != 0) memory_->give_segment(spare_);
    spare_ = 0;
  }

 private:
  static constexpr std::uint32_t kSessionsRing = 0;

  static std::uint32_t slot(std::uint64_t position) noexcept {
    return static_cast<std::uint32_t>(position / format::kSegmentBytes % format::kRingSegments);
  }
  // One writer: a plain add, visible to readers of the header.
  static void add(std::atomic<std::uint64_t>& value) noexcept {
    value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  bool fits(std::uint32_t bytes) noexcept {
    if (base_ == nullptr) return false;
    const std::uint64_t within = head_ % format::kSegmentBytes;
    if (fresh_ || (within != 0 && format::kSegmentBytes - within >= bytes)) return true;
    if (within == 0) base_ = nullptr;  // the segment is exactly full: the drain may have given it back
    return false;
  }

  // Can all ends that are owed still be written after `bytes` more in this segment? Either behind them, or in
  // the spare segment, for which the ring itself must have a place.
  bool ends_fit_behind(std::uint32_t bytes) const noexcept {
    const std::uint64_t within = head_ % format::kSegmentBytes;
    const std::uint64_t left = format::kSegmentBytes - within;
    if (left >= bytes + owed_ends_ * sizeof(format::SpanEndRecord)) return true;
    const std::uint64_t next = head_ + left;
    return spare_ != 0 && header_->segment[slot(next)].load(std::memory_order_acquire) == 0;
  }

  bool find_room(std::uint32_t bytes) noexcept {
    if (spare_ == 0 && owed_ends_ != 0) spare_ = memory_->take_segment();
    return fits(bytes) ? ends_fit_behind(bytes) : (spare_ != 0 || owed_ends_ == 0) && next_segment(0);
  }

  // The session's own thread drains: it can't wait for itself.
  bool wait_a_moment(std::uint64_t& since_ns) noexcept {
    return index_ != kSessionsRing && memory_->wait_a_moment(since_ns);
  }

  // The segment's rest does not hold `bytes` and all ends that are owed. False: dropped and counted.
  __attribute__((noinline)) bool make_room(std::uint32_t bytes) noexcept {
    bool made = find_room(bytes);
    for (std::uint64_t since = 0; !made && wait_a_moment(since);) made = find_room(bytes);
    measure_room();
    if (made && room_ < bytes) room_ = bytes;  // for commit; the ends have the spare segment
    if (!made) add(header_->dropped[static_cast<std::uint32_t>(format::DropCause::kRingFull)]);
    return made;
  }

  void measure_room() noexcept {
    const std::uint64_t within = head_ % format::kSegmentBytes;
    const std::uint64_t left =
        base_ == nullptr || (within == 0 && !fresh_) ? 0 : format::kSegmentBytes - within;
    const std::uint64_t owed = owed_ends_ * sizeof(format::SpanEndRecord);
    room_ = static_cast<std::uint32_t>(left > owed ? left - owed : 0);
  }

  bool use_spare() noexcept {
    if (spare_ == 0) return false;
    const std::uint32_t spare = spare_;
    spare_ = 0;
    return next_segment(spare);
  }

  // Goes on in a new segment; the rest of the old one becomes a pad record.
  bool next_segment(std::uint32_t given) noexcept {
    const std::uint64_t within = head_ % format::kSegmentBytes;
    const std::uint64_t next = within == 0 ? head_ : head_ + (format::kSegmentBytes - within);
    std::atomic<std::uint16_t>& place = header_->segment[slot(next)];
    // The ring's own limit is kRingSegments in flight; the last one is kept for ends.
    const bool ring_full = place.load(std::memory_order_acquire) != 0 ||
                           (given == 0 && header_->segment[slot(next + format::kSegmentBytes)].load(
                                              std::memory_order_acquire) != 0);
    if (ring_full) {
      if (given != 0) spare_ = given;
      return false;
    }
    const std::uint32_t segment = given != 0 ? given : memory_->take_segment();
    if (segment == 0) return false;
    if (within != 0 && base_ != nullptr) {
      auto* pad = reinterpret_cast<format::RecordHeader*>(base_ + within);
      pad->bytes = static_cast<std::uint32_t>(format::kSegmentBytes - within);
      pad->type = format::RecordType::kPad;
      pad->flags = 0;
      if (pad->bytes >= sizeof(format::RecordHeader)) pad->time_ns = 0;
    }
    place.store(static_cast<std::uint16_t>(segment), std::memory_order_release);
    base_ = memory_->segment(segment);
    head_ = next;
    fresh_ = true;
    header_->head.store(head_, std::memory_order_release);
    return true;
  }

  SharedMemory* memory_ = nullptr;
  format::RingHeader* header_ = nullptr;
  unsigned char* base_ = nullptr;  // of the segment that head_ lies in
  std::uint64_t head_ = 0;
  std::uint32_t index_ = 0;
  std::uint32_t spare_ = 0;  // pool index + 1
  std::uint32_t owed_ends_ = 0;
  std::uint32_t room_ = 0;  // bytes of the segment's rest that no end is owed
  bool fresh_ = false;      // the segment at head_ is ours and empty
};

}  // namespace tensortap::probe
