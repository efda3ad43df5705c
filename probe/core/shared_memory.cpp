#include "probe/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "probe/core/clock.h"

namespace tensortap::probe {

using namespace format;

namespace {

// High, so that a job that counts on the lowest free number is not disturbed; but below 64, where a process's
// first table of descriptors ends: to make a larger one the kernel waits until all processors had their turn,
// a second on a loaded machine.
int move_high(int fd) noexcept {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, 48);
  if (high < 0) return fd;
  close(fd);
  return high;
}

}  // namespace

bool SharedMemory::create(std::uint64_t pool_bytes) noexcept {
  std::uint64_t segments = pool_bytes / kSegmentBytes;
  if (segments < 16) segments = 16;
  if (segments > kMaxPoolSegments) segments = kMaxPoolSegments;
  bytes = pool_offset() + segments * kSegmentBytes;
  int made = memfd_create("tensortap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0) return false;
  if (ftruncate(made, static_cast<off_t>(bytes)) != 0 ||
      fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    close(made);
    return false;
  }
  made = move_high(made);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
  if (mapped == MAP_FAILED) {
    close(made);
    return false;
  }
  madvise(mapped, bytes, MADV_DONTFORK);
  madvise(mapped, bytes, MADV_DONTDUMP);
  fd = made;
  base = static_cast<unsigned char*>(mapped);
  header = reinterpret_cast<SessionHeader*>(base);
  rings = reinterpret_cast<RingHeader*>(base + rings_offset());
  strings = reinterpret_cast<char*>(base + strings_offset());
  pool = base + pool_offset();
  begin_again();
  return true;
}

void SharedMemory::give_back() noexcept { madvise(base, bytes, MADV_REMOVE); }

void SharedMemory::begin_again() noexcept {
  populated = 0;
  wait_for_room.store(false, std::memory_order_relaxed);
  waited_in_vain.store(false, std::memory_order_relaxed);
  header->version = kRingVersion;
  header->ring_count = kMaxRings;
  header->total_bytes = bytes;
  header->rings_offset = rings_offset();
  header->strings_offset = strings_offset();
  header->strings_bytes = kStringTableBytes;
  header->pool_offset = pool_offset();
  header->pool_segments = static_cast<std::uint32_t>((bytes - pool_offset()) / kSegmentBytes);
  header->pid = static_cast<std::uint64_t>(getpid());
  header->clock_zero_ns = monotonic_ns();
  header->magic = kRingMagic;
}

bool SharedMemory::wait_a_moment(std::uint64_t& since_ns) noexcept {
  constexpr std::uint64_t kPatienceNs = 5000000000;  // of a collector that takes nothing: the job goes on
  if (!wait_for_room.load(std::memory_order_acquire)) return false;
  const std::uint64_t now = monotonic_ns();
  if (since_ns == 0) {
    since_ns = now;
    count(Counter::kWaitedForRoom);
  } else if (now - since_ns > kPatienceNs) {
    waited_in_vain.store(true, std::memory_order_relaxed);
    wait_for_room.store(false, std::memory_order_release);
    return false;
  }
  const timespec pause{0, 100000};
  nanosleep(&pause, nullptr);
  return true;
}

std::uint32_t SharedMemory::take_segment() noexcept {
  const std::uint32_t words = (header->pool_segments + 63) / 64;
  for (std::uint32_t word = 0; word < words; ++word) {
    std::uint64_t taken = header->pool_bitmap[word].load(std::memory_order_relaxed);
    while (taken != ~std::uint64_t{0}) {
      const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(~taken));
      const std::uint32_t index = word * 64 + bit;
      if (index >= header->pool_segments) return 0;
      if (header->pool_bitmap[word].compare_exchange_weak(taken, taken | (std::uint64_t{1} << bit),
                                                          std::memory_order_acq_rel)) {
        return index + 1;
      }
    }
  }
  return 0;
}

void SharedMemory::populate_ahead() noexcept {
#ifdef MADV_POPULATE_WRITE
  constexpr std::uint32_t kAhead = 64, kStep = 32;  // segments: 2 MiB, 1 MiB
  std::uint32_t taken = 0;                          // the lowest free one is taken first
  for (const std::atomic<std::uint64_t>& word : header->pool_bitmap) {
    taken += static_cast<std::uint32_t>(__builtin_popcountll(word.load(std::memory_order_relaxed)));
  }
  while (populated < taken + kAhead && populated + kStep <= header->pool_segments) {
    if (madvise(segment(populated + 1), kStep * kSegmentBytes, MADV_POPULATE_WRITE) != 0) {
      populated = header->pool_segments;  // an old kernel, or no memory: not tried again
      return;
    }
    populated += kStep;
  }
#endif
}

void SharedMemory::give_segment(std::uint32_t index_plus_one) noexcept {
  const std::uint32_t index = index_plus_one - 1;
  header->pool_bitmap[index / 64].fetch_and(~(std::uint64_t{1} << (index % 64)), std::memory_order_acq_rel);
}

}  // namespace tensortap::probe
