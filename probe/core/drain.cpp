#include "probe/core/drain.h"

#include <algorithm>

namespace tensortap::probe {

using namespace format;

namespace {

std::uint32_t slot_of(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position / kSegmentBytes % kRingSegments);
}

}  // namespace

Drain::Drain(SharedMemory& memory)
    : memory_(memory),
      strings_{memory.strings, kStringTableBytes},
      read_(kMaxRings, 0),
      records_(kMaxRings, 0),
      released_records_(kMaxRings, 0) {}

std::uint64_t Drain::pending_bytes() const noexcept {
  std::uint64_t pending = 0;
  const std::uint32_t used = memory_.header->rings_used.load(std::memory_order_acquire);
  for (std::uint32_t ring = 0; ring < used; ++ring) {
    pending += memory_.rings[ring].head.load(std::memory_order_acquire) - read_[ring];
  }
  return pending;
}

// Puts the source onto its next record that yields lines. False: it is read up to its head.
bool Drain::settle(Source& source) noexcept {
  while (source.position < source.head) {
    const std::uint32_t segment =
        memory_.rings[source.ring].segment[slot_of(source.position)].load(std::memory_order_acquire);
    if (segment == 0) return false;
    const std::uint64_t within = source.position % kSegmentBytes;
    source.record = memory_.segment(segment) + within;
    source.available = std::min(kSegmentBytes - within, source.head - source.position);
    RecordHeader header;
    if (!read_record_header(source.record, source.available, header)) return false;
    if (header.type != RecordType::kPad) {
      source.time_ns = header.time_ns;
      source.available = header.bytes;
      return true;
    }
    source.position += header.bytes;
    read_[source.ring] = source.position;
  }
  return false;
}

static bool later(std::uint64_t time_a, std::uint32_t ring_a, std::uint64_t time_b,
                  std::uint32_t ring_b) noexcept {
  return time_a != time_b ? time_a > time_b : ring_a > ring_b;
}

void Drain::take_heads() {
  sources_.clear();
  const std::uint32_t used = memory_.header->rings_used.load(std::memory_order_acquire);
  for (std::uint32_t ring = 0; ring < used; ++ring) {
    Source source;
    source.ring = ring;
    source.position = read_[ring];
    source.head = memory_.rings[ring].head.load(std::memory_order_acquire);
    if (settle(source)) sources_.push_back(source);
  }
}

bool Drain::collect(std::string& text, Cursors& cursors) {
  const auto order = [](const Source& a, const Source& b) {
    return later(a.time_ns, a.ring, b.time_ns, b.ring);
  };
  if (sources_.empty()) {
    take_heads();
    if (sources_.empty()) return false;
  }
  std::make_heap(sources_.begin(), sources_.end(), order);
  const std::size_t enough = text.size() + kBatchBytes;
  RecordRenderer renderer(text);
  std::vector<std::uint32_t> touched;
  while (!sources_.empty() && text.size() < enough) {
    std::pop_heap(sources_.begin(), sources_.end(), order);
    Source& source = sources_.back();
    if (std::find(touched.begin(), touched.end(), source.ring) == touched.end())
      touched.push_back(source.ring);
    // As long as this ring's records are the earliest there is no need to touch the heap.
    bool more = true;
    do {
      renderer.append(source.record, source.available, source.ring, strings_);
      source.position += source.available;
      read_[source.ring] = source.position;
      ++records_[source.ring];
      more = settle(source);
    } while (more && text.size() < enough &&
             (sources_.size() == 1 ||
              !later(source.time_ns, source.ring, sources_.front().time_ns, sources_.front().ring)));
    if (more) {
      std::push_heap(sources_.begin(), sources_.end(), order);
    } else {
      sources_.pop_back();
    }
  }
  memory_.header->counters[static_cast<std::size_t>(Counter::kReplacedBytes)].fetch_add(
      renderer.replaced_bytes(), std::memory_order_relaxed);
  cursors.clear();
  for (const std::uint32_t ring : touched) cursors.push_back({ring, read_[ring], records_[ring]});
  return true;
}

void Drain::release(const Cursors& cursors) noexcept {
  for (const auto& [ring, position, records] : cursors) {
    RingHeader& header = memory_.rings[ring];
    const std::uint64_t released = header.released.load(std::memory_order_relaxed);
    if (position <= released) continue;
    released_records_[ring] = records;
    for (std::uint64_t at = released / kSegmentBytes; at < position / kSegmentBytes; ++at) {
      std::atomic<std::uint16_t>& place = header.segment[at % kRingSegments];
      const std::uint16_t segment = place.load(std::memory_order_relaxed);
      if (segment == 0) continue;
      place.store(0, std::memory_order_release);
      memory_.give_segment(segment);
    }
    header.released.store(position, std::memory_order_release);
    std::uint32_t ended = kRingEnded;
    if (header.head.load(std::memory_order_acquire) == position) {
      header.state.compare_exchange_strong(ended, kRingFree, std::memory_order_acq_rel);
    }
  }
}

void Drain::rewind(const Cursors& cursors) noexcept {
  sources_.clear();
  const std::uint32_t used = memory_.header->rings_used.load(std::memory_order_acquire);
  for (std::uint32_t ring = 0; ring < used; ++ring) {
    read_[ring] = memory_.rings[ring].released.load(std::memory_order_relaxed);
    records_[ring] = released_records_[ring];
  }
  for (const auto& [ring, position, records] : cursors) {
    if (ring >= used || position <= read_[ring]) continue;
    read_[ring] = position;
    records_[ring] = records;
  }
}

}  // namespace tensortap::probe
