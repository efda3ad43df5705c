#include "collector/ring_recovery.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <queue>
#include <string>

#include "format/ring_lines.h"
#include "format/ring_record.h"

namespace tensortap::collector {

using format::Cursor;
using format::Error;
using format::ErrorCode;
using format::kMaxRings;
using format::kRingSegments;
using format::kSegmentBytes;
using format::RecordHeader;
using format::RecordType;

namespace {

constexpr std::size_t kChunkBytes = 1024 * 1024;
// Text of a whole image: a record becomes a line of several times its size, and names come from a table.
constexpr std::uint64_t kMaxTextOfImage = 32;  // × its bytes
constexpr std::uint64_t kRingCapacity = std::uint64_t{kRingSegments} * kSegmentBytes;

bool read_at(int fd, std::uint64_t offset, void* into, std::size_t bytes) {
  auto* target = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd, target, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    target += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// Copies a trivially laid out structure of atomics: it is ours alone afterwards.
template <class T>
std::unique_ptr<T> read_structure(int fd, std::uint64_t offset) {
  auto value = std::make_unique<T>();
  static_assert(std::is_standard_layout_v<T>);
  if (!read_at(fd, offset, static_cast<void*>(value.get()), sizeof(T))) return nullptr;
  return value;
}

std::unique_ptr<format::SessionHeader> read_header(int fd) {
  return read_structure<format::SessionHeader>(fd, 0);
}

std::unique_ptr<format::RingHeader> read_ring(int fd, std::uint32_t ring) {
  return read_structure<format::RingHeader>(fd, format::rings_offset() + ring * sizeof(format::RingHeader));
}

std::uint32_t rings_used(int fd) {
  const auto header = read_header(fd);
  return header == nullptr ? 0 : std::min<std::uint32_t>(header->rings_used.load(), kMaxRings);
}

std::string read_strings(int fd) {
  const auto header = read_header(fd);
  if (header == nullptr) return {};
  std::string strings(std::min<std::uint64_t>(header->strings_tail.load(), format::kStringTableBytes), '\0');
  if (!read_at(fd, format::strings_offset(), strings.data(), strings.size())) strings.clear();
  return strings;
}

// By ring.
std::vector<Cursor> all_cursors(const std::vector<Cursor>& cursors) {
  std::vector<Cursor> all(kMaxRings);
  for (std::uint32_t ring = 0; ring < kMaxRings; ++ring) all[ring].ring = ring;
  for (const Cursor& cursor : cursors) {
    if (cursor.ring < kMaxRings && cursor.position > all[cursor.ring].position) all[cursor.ring] = cursor;
  }
  return all;
}

// Which segments of the pool were read: each belongs to one place of one ring.
using Segments = std::vector<bool>;

// Walks the records of one ring from a position to its head, a segment at a time.
class RingWalk {
 public:
  RingWalk(int fd, const Cursor& from, Segments& segments, std::unique_ptr<format::RingHeader> header)
      : fd_(fd),
        ring_(from.ring),
        segments_(segments),
        header_(std::move(header)),
        position_(from.position),
        records_(from.records),
        is_numbered_(from.records != 0 || from.position == 0),
        head_(header_->head.load()) {
    if (position_ % 8 != 0 || head_ % 8 != 0 || position_ > head_ || head_ - position_ > kRingCapacity) {
      malformed_ = true;
    }
  }

  std::uint32_t ring() const { return ring_; }
  // How far it was read. Without the number of records that lie before its beginning there is none at all.
  Cursor reached() const { return {ring_, position_, is_numbered_ ? records_ : 0}; }
  bool malformed() const { return malformed_; }
  std::uint64_t unread_bytes() const {
    return position_ <= head_ ? std::min(head_ - position_, kRingCapacity) : 0;
  }
  std::uint64_t time_ns() const { return time_ns_; }
  const unsigned char* record() const { return segment_.data() + offset(); }
  std::uint64_t available() const { return loaded_ - offset(); }

  // Makes the record at `position` current; false at the head, or where the ring stops making sense.
  bool load() {
    while (!malformed_ && position_ < head_) {
      if (!load_segment()) return false;
      RecordHeader header;
      if (!format::read_record_header(record(), available(), header)) return fail();
      bytes_ = header.bytes;
      if (header.type == RecordType::kPad) {
        position_ += bytes_;
        continue;
      }
      time_ns_ = std::max(time_ns_, header.time_ns);  // never falls within a ring, whatever a record says
      return true;
    }
    return false;
  }

  void advance() {
    position_ += bytes_;
    ++records_;
  }
  bool fail() {
    malformed_ = true;
    return false;
  }

 private:
  std::uint64_t offset() const { return position_ % kSegmentBytes; }

  bool load_segment() {
    const std::uint64_t number = position_ / kSegmentBytes;
    if (number == loaded_number_) return true;
    const std::uint64_t bytes = std::min(head_ - number * kSegmentBytes, kSegmentBytes);
    const std::uint32_t index = header_->segment[number % kRingSegments].load();
    if (index == 0 || index > segments_.size() || segments_[index - 1]) return fail();
    segments_[index - 1] = true;
    segment_.resize(kSegmentBytes);
    if (!read_at(fd_, format::pool_offset() + (index - 1) * kSegmentBytes, segment_.data(), bytes))
      return fail();
    loaded_number_ = number;
    loaded_ = bytes;
    return true;
  }

  int fd_;
  std::uint32_t ring_;
  Segments& segments_;
  std::unique_ptr<format::RingHeader> header_;
  std::uint64_t position_;
  std::uint64_t records_;
  bool is_numbered_;
  std::uint64_t head_;
  std::vector<unsigned char> segment_;
  std::uint64_t loaded_ = 0;  // readable bytes of the segment
  std::uint64_t loaded_number_ = ~std::uint64_t{0};
  std::uint64_t bytes_ = 0;
  std::uint64_t time_ns_ = 0;
  bool malformed_ = false;
};

struct Later {
  bool operator()(const RingWalk* a, const RingWalk* b) const {
    if (a->time_ns() != b->time_ns()) return a->time_ns() > b->time_ns();
    return a->ring() > b->ring();
  }
};

// Collects lines and the cursors that they reach, and hands both on in chunks.
class Chunks {
 public:
  explicit Chunks(const RingImage::Sink& sink) : sink_(sink), reached_(kMaxRings) {}
  std::string& lines() { return lines_; }
  void reach(const Cursor& cursor) { reached_[cursor.ring] = cursor; }
  std::uint64_t bytes() const { return handed_out_ + lines_.size(); }
  format::Status flush() {
    std::vector<Cursor> cursors;
    for (Cursor& cursor : reached_) {
      if (cursor.position != 0) cursors.push_back(cursor);
      cursor = {};
    }
    if (cursors.empty()) return {};
    handed_out_ += lines_.size();
    format::Status status = sink_(lines_, cursors);
    lines_.clear();
    return status;
  }

 private:
  const RingImage::Sink& sink_;
  std::string lines_;
  std::vector<Cursor> reached_;  // position 0 = not reached in this chunk
  std::uint64_t handed_out_ = 0;
};

const char* geometry_fault(const format::SessionHeader& header, std::uint64_t bytes) {
  if (header.magic != format::kRingMagic) return "it is not a tensortap ring memory (magic)";
  if (header.version != format::kRingVersion) return "its ring version is not the one this collectord reads";
  if (header.ring_count != kMaxRings || header.rings_offset != format::rings_offset() ||
      header.strings_offset != format::strings_offset() ||
      header.strings_bytes != format::kStringTableBytes || header.pool_offset != format::pool_offset()) {
    return "its geometry is not the one this collectord reads";
  }
  if (header.pool_segments > format::kMaxPoolSegments || header.total_bytes != bytes ||
      header.pool_offset + header.pool_segments * kSegmentBytes > bytes) {
    return "its size does not fit its header";
  }
  return nullptr;
}

}  // namespace

format::Result<RingImage> RingImage::open(UniqueFd fd) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kRejected, "the descriptor is not a memfd"};
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0)
    return Error{ErrorCode::kRejected, "the descriptor is not a memfd made with MFD_ALLOW_SEALING"};
  if ((seals & F_SEAL_SHRINK) == 0) {
    return Error{ErrorCode::kRejected, "the memfd is not sealed against shrinking (F_SEAL_SHRINK)"};
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  const auto header = read_header(fd.get());
  if (header == nullptr) return Error{ErrorCode::kRejected, "the memfd is too short for its header"};
  if (const char* fault = geometry_fault(*header, bytes)) {
    return Error{ErrorCode::kRejected, std::string("the memfd is refused: ") + fault};
  }
  return RingImage(std::move(fd), bytes, header->pool_segments);
}

RingTally RingImage::tally() const {
  RingTally tally;
  const auto header = read_header(fd_.get());
  if (header == nullptr) return tally;
  tally.threads_seen = header->threads_seen.load();
  for (std::size_t i = 0; i < static_cast<std::size_t>(format::Counter::kCount); ++i) {
    const std::uint64_t value = header->counters[i].load();
    if (value != 0) tally.counters[format::counter_name(static_cast<format::Counter>(i))] = value;
  }
  for (std::uint32_t ring = 0; ring < rings_used(fd_.get()); ++ring) {
    const auto ring_header = read_ring(fd_.get(), ring);
    if (ring_header == nullptr) break;
    ThreadAccount account;
    account.ring = ring;
    account.thread = ring_header->thread;
    account.tid = ring_header->tid;
    account.offered = ring_header->offered.load();
    account.stored = ring_header->stored.load();
    for (std::size_t i = 0; i < static_cast<std::size_t>(format::DropCause::kCount); ++i) {
      const std::uint64_t value = ring_header->dropped[i].load();
      if (value != 0) account.dropped[format::drop_cause_name(static_cast<format::DropCause>(i))] = value;
    }
    if (account.offered != 0 || account.stored != 0 || !account.dropped.empty()) {
      tally.rings.push_back(std::move(account));
    }
  }
  return tally;
}

std::uint64_t RingImage::pending_bytes(const std::vector<Cursor>& committed) const {
  const std::vector<Cursor> from = all_cursors(committed);
  Segments segments(pool_segments_);
  std::uint64_t pending = 0;
  for (std::uint32_t ring = 0; ring < rings_used(fd_.get()); ++ring) {
    auto header = read_ring(fd_.get(), ring);
    if (header == nullptr) break;
    pending += RingWalk(fd_.get(), from[ring], segments, std::move(header)).unread_bytes();
  }
  return pending;
}

format::Result<Recovery> RingImage::recover(const std::vector<Cursor>& committed, const Sink& sink) const {
  Recovery recovery;
  const std::vector<Cursor> from = all_cursors(committed);
  Segments segments(pool_segments_);
  const std::uint32_t used = rings_used(fd_.get());
  std::vector<std::unique_ptr<RingWalk>> walks;
  std::priority_queue<RingWalk*, std::vector<RingWalk*>, Later> queue;
  for (std::uint32_t ring = 0; ring < used; ++ring) {
    auto header = read_ring(fd_.get(), ring);
    if (header == nullptr) break;
    if (header->head.load() == from[ring].position) continue;
    walks.push_back(std::make_unique<RingWalk>(fd_.get(), from[ring], segments, std::move(header)));
    if (walks.back()->load()) queue.push(walks.back().get());
  }
  // After the heads: every text that a published record names is in the table by then.
  const std::string strings = read_strings(fd_.get());
  const format::StringTable table{strings.data(), strings.size()};

  Chunks chunks(sink);
  format::RecordRenderer renderer(chunks.lines());
  while (!queue.empty()) {
    RingWalk* walk = queue.top();
    queue.pop();
    if (!renderer.append(walk->record(), walk->available(), walk->ring(), table)) {
      walk->fail();
      continue;
    }
    ++recovery.records;
    walk->advance();
    chunks.reach(walk->reached());
    if (chunks.lines().size() >= kChunkBytes) {
      if (format::Status status = chunks.flush(); !status) return status.error();
    }
    if (chunks.bytes() > kMaxTextOfImage * bytes_) {
      recovery.too_much = true;
      break;
    }
    if (walk->load()) queue.push(walk);
  }
  for (const auto& walk : walks) {
    if (walk->malformed()) ++recovery.malformed_rings;
    if (!walk->malformed() && !recovery.too_much) {
      chunks.reach(walk->reached());  // pads behind the last record
    } else {
      recovery.unread_bytes += walk->unread_bytes();
    }
  }
  if (format::Status status = chunks.flush(); !status) return status.error();
  recovery.replaced_bytes = renderer.replaced_bytes();
  return recovery;
}

}  // namespace tensortap::collector
