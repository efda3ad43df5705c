// Any stream of records through structural health: it ends, it is bounded, its counts agree with its list,
// and being asked in between changes nothing. The bytes choose the records: few ids, so that they meet.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "format/health/trace_health.h"

namespace {

using namespace tensortap::format;

void require(bool condition) {
  if (!condition) std::abort();
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::uint64_t time() {
    const std::uint8_t byte = next();
    return byte == 255 ? ~std::uint64_t{0} : byte % 32;
  }
  std::string_view id() {
    static constexpr std::string_view kIds[] = {"",  " ", "r", "s1", "s2", "s10", "s01", "a-very-long-name-1",
                                                "t7"};
    return kIds[next() % std::size(kIds)];
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

void show_span(Bytes& bytes, EventVisitor& visitor, const Place& place) {
  if (bytes.next() % 2 == 0) {
    SpanEnd event;
    event.id = bytes.id();
    event.duration_ns = bytes.time();
    return visitor.on_span_end(event, place);
  }
  SpanStart event;
  event.id = event.name = bytes.id();
  if (bytes.next() % 8 != 0) event.parent_id = bytes.id();
  event.start_ns = bytes.time();
  event.measured = bytes.next() % 4 == 0;
  visitor.on_span_start(event, place);
}

void show_memory(Bytes& bytes, EventVisitor& visitor, const Place& place) {
  Memory event;
  event.span_id = bytes.id();
  event.storage_id = bytes.id();
  event.tensor_id = bytes.id();
  event.device = bytes.next() % 4 == 0 ? "cuda:0" : "cpu";
  event.timestamp_ns = bytes.time();
  event.bytes = bytes.next() % 2;
  event.action = bytes.next() % 2 == 0 ? MemoryAction::kAlloc : MemoryAction::kFree;
  visitor.on_memory(event, place);
}

void show_edge(Bytes& bytes, EventVisitor& visitor, const Place& place) {
  Edge event;
  event.edge_kind = bytes.next() % 2 == 0 ? Edge::Kind::kCall : Edge::Kind::kData;
  event.from = bytes.id();
  event.to = bytes.id();
  event.host_duration_ns = bytes.time();
  visitor.on_edge(event, place);
}

void show_record(Bytes& bytes, EventVisitor& visitor, const Place& place) {
  switch (bytes.next() % 8) {
    case 0:
    case 1:
      return show_span(bytes, visitor, place);
    case 2: {
      Op event;
      event.span_id = bytes.id();
      event.timestamp_ns = bytes.time();
      event.duration_ns = bytes.time();
      event.inputs = {bytes.id()};
      return visitor.on_op(event, place);
    }
    case 3:
      return show_memory(bytes, visitor, place);
    case 4:
      return show_edge(bytes, visitor, place);
    case 5: {
      Gradient event;
      event.event_id = bytes.id();
      event.root = bytes.id();
      event.key = bytes.id();
      event.state = static_cast<GradientState>(bytes.next() % 4);
      if (bytes.next() % 2 == 0) event.norm = bytes.next() % 3;
      return visitor.on_gradient(event, place);
    }
    case 6: {
      DeviceInterval event;
      event.span_id = bytes.id();
      event.duration_ns = bytes.time();
      return visitor.on_device_interval(event, place);
    }
    default: {
      if (bytes.next() % 8 != 0) {
        Tensor event;
        event.span_id = bytes.id();
        event.tensor_id = bytes.id();
        return visitor.on_tensor(event, place);
      }
      Terminal event;
      event.outcome = bytes.next() % 2 == 0 ? Outcome::kComplete : Outcome::kFailed;
      event.timestamp_ns = bytes.time();
      event.reason = "x";
      return visitor.on_terminal(event, place);
    }
  }
}

// `ask_every`: how many records lie between two questions; 0: only at the end.
Health health_of(const std::uint8_t* data, std::size_t size, std::uint64_t ask_every) {
  Bytes bytes(data, size);
  TraceHealth health({.most_issues_per_code = 4});
  health.on_meta(Meta{}, Place{0, 1, 0});
  for (std::uint64_t index = 1; !bytes.empty(); ++index) {
    show_record(bytes, health, Place{index, index + 1, 100 * index});
    if (ask_every != 0 && index % ask_every == 0) health.finish();
  }
  return health.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Health health = health_of(data, size, 0);
  std::uint64_t errors = 0, warnings = 0, listed = 0;
  for (const HealthTotal& total : health.totals) {
    require(total.listed <= 4 && total.listed <= total.errors + total.warnings);
    errors += total.errors;
    warnings += total.warnings;
    listed += total.listed;
  }
  require(errors == health.errors && warnings == health.warnings && listed == health.issues.size());
  require(health.structurally_valid == (errors == 0));
  const Health asked = health_of(data, size, size == 0 ? 1 : 1 + data[0] % 5);
  require(asked.issues.size() == health.issues.size() && asked.errors == health.errors);
  for (std::size_t i = 0; i < asked.issues.size(); ++i) {
    require(asked.issues[i].code == health.issues[i].code &&
            asked.issues[i].message == health.issues[i].message);
  }
  return 0;
}
