// A probe's shared memory, written by a test: follows format/ring_layout.h, and can be made to lie.
//
//   RingMemory memory(8);                        // segments in the pool
//   memory.put_line(0, R"({"kind":"meta",…})", 0);
//   Result<RingImage> image = RingImage::open(memory.share());
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "collector/unique_fd.h"
#include "format/ring_layout.h"
#include "format/ring_record.h"

namespace tensortap::collector::test {

class RingMemory {
 public:
  explicit RingMemory(std::uint32_t segments, bool seal = true)
      : bytes_(format::pool_offset() + segments * format::kSegmentBytes) {
    fd_ = UniqueFd(::memfd_create("tensortap-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) std::abort();
    if (seal) ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK);
    base_ = static_cast<unsigned char*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    format::SessionHeader& head = header();
    head.magic = format::kRingMagic;
    head.version = format::kRingVersion;
    head.ring_count = format::kMaxRings;
    head.total_bytes = bytes_;
    head.rings_offset = format::rings_offset();
    head.strings_offset = format::strings_offset();
    head.strings_bytes = format::kStringTableBytes;
    head.pool_offset = format::pool_offset();
    head.pool_segments = segments;
    head.rings_used = 1;
  }
  ~RingMemory() { ::munmap(base_, bytes_); }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  UniqueFd share() const { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)); }
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  format::SessionHeader& header() { return *reinterpret_cast<format::SessionHeader*>(base_); }
  format::RingHeader& ring(std::uint32_t index) {
    return reinterpret_cast<format::RingHeader*>(base_ + format::rings_offset())[index];
  }
  unsigned char* strings() { return base_ + format::strings_offset(); }
  unsigned char* at(std::uint32_t index, std::uint64_t position) {
    const std::uint32_t segment =
        ring(index).segment[position / format::kSegmentBytes % format::kRingSegments];
    return base_ + format::pool_offset() + (segment - 1) * format::kSegmentBytes +
           position % format::kSegmentBytes;
  }

  // Appends a record; a pad fills the segment when it does not fit. Yields its position.
  std::uint64_t put(std::uint32_t index, const std::string& record) {
    if (index >= header().rings_used) header().rings_used = index + 1;
    format::RingHeader& head = ring(index);
    std::uint64_t position = head.head;
    const std::uint64_t rest = format::kSegmentBytes - position % format::kSegmentBytes;
    if (position % format::kSegmentBytes != 0 && rest < record.size()) {
      const format::RecordHeader pad{static_cast<std::uint32_t>(rest), format::RecordType::kPad, 0, 0};
      std::memcpy(at(index, position), &pad, rest < sizeof pad ? 8 : sizeof pad);
      position += rest;
    }
    if (position % format::kSegmentBytes == 0) {
      head.segment[position / format::kSegmentBytes % format::kRingSegments] = ++segments_taken_;
    }
    std::memcpy(at(index, position), record.data(), record.size());
    head.head = position + record.size();
    ++head.offered;
    ++head.stored;
    return position;
  }

  std::uint64_t put_line(std::uint32_t index, std::string_view line, std::uint64_t time_ns) {
    return put(index, line_record(line, time_ns));
  }

  // The text of a line record has its LF.
  static std::string line_record(std::string_view text, std::uint64_t time_ns) {
    const std::string line = std::string(text) + "\n";
    format::LineRecord record{};
    record.header.bytes = static_cast<std::uint32_t>(format::round_up(sizeof record + line.size(), 8));
    record.header.type = format::RecordType::kLine;
    record.header.time_ns = time_ns;
    record.length = static_cast<std::uint32_t>(line.size());
    std::string bytes(record.header.bytes, '\0');
    std::memcpy(bytes.data(), &record, sizeof record);
    std::memcpy(bytes.data() + sizeof record, line.data(), line.size());
    return bytes;
  }

 private:
  std::uint64_t bytes_;
  UniqueFd fd_;
  unsigned char* base_ = nullptr;
  std::uint16_t segments_taken_ = 0;
};

}  // namespace tensortap::collector::test
