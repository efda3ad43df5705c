// What the collector says to this process, and what it is told of it (proto/session.md).
#include "format/line_writer.h"
#include "probe/core/capture.h"
#include "probe/core/op_counts.h"
#include "probe/core/process_memory.h"
#include "probe/core/session_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

constexpr std::uint64_t kSampleNs = 100 * kMs;        // resident set
constexpr std::uint64_t kCountsNs = 2000 * kMs;       // always-on
constexpr std::size_t kMaxCountsBytes = 1000 * 1000;  // a line of the protocol is at most 1 MiB long
constexpr double kDefaultShare = 1.0 / 16;

const char* phase_name(Phase phase) noexcept {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kWatching:
      return "watching";
    case Phase::kReady:
      return "ready";
    case Phase::kCapturing:
      return "capturing";
    case Phase::kClosing:
      return "closing";
  }
  return "?";
}

void append_member(std::string& line, const char* name, std::uint64_t value) {
  line += ",\"";
  line += name;
  line += "\":";
  append_json_number(line, value);
}

void stop_counting(Session& session) noexcept {
  if (!session.counting) return;
  if (TorchSection torch; torch && session.observers.remove_counter != nullptr) {
    session.observers.remove_counter();
  }
  session.counted_ns += monotonic_ns() - session.counting_since_ns;
  session.counting = false;
}

void start_was_ordered(Session& session, std::string_view line) {
  CaptureOrder order;
  session.error.clear();
  if (!parse_capture_order(text_member(line, "capture"), order)) {
    session.error = "this probe does not know that order; is it of another version?";
  } else {
    if (session.phase == Phase::kIdle) {
      session.after_start = true;
      session.late = false;
    }
    obey(session, order, session.error);
  }
  send_state(session);
}

void stop_was_ordered(Session& session) {
  session.wanted = false;
  session.error.clear();
  if (session.phase == Phase::kIdle) {
    session.counted_share = 0;
    stop_counting(session);
  }
  if (session.phase == Phase::kWatching) {
    abandon_run(session);  // nothing was announced
  } else if (session.phase == Phase::kReady || session.phase == Phase::kCapturing) {
    close_run(session, nullptr);
  }
  if (session.connection.is_open()) send_state(session);
}

}  // namespace

const char* state_name(const Session& session) noexcept {
  return session.phase == Phase::kIdle && session.counting ? "always-on" : phase_name(session.phase);
}

bool obey(Session& session, const CaptureOrder& order, std::string& why_not) {
  if (session.phase != Phase::kIdle) {
    why_not = "a capture is under way";
    return false;
  }
  session.wanted = false;
  if (order.mode != CaptureOrder::Mode::kCapture) {
    const double share = order.sampled_share != 0 ? order.sampled_share : kDefaultShare;
    session.counted_share = order.mode == CaptureOrder::Mode::kAlwaysOn ? share : 0;
    stop_counting(session);  // another share begins anew
    return true;
  }
  session.order = order;
  stop_counting(session);
  if (!prepare_run(session)) {
    why_not = "the process has no memory for a capture";
    return false;
  }
  if (order.plan.begin == CapturePlan::Begin::kNow) {
    if (!announce_run(session)) {  // the collector went away just now: the next one is asked again
      end_run(session);
      session.wanted = true;
      return false;
    }
    open_run_now(session);
  } else {
    session.phase = Phase::kWatching;
    follow_plan(session, monotonic_ns());
  }
  return true;
}

bool hear(Session& session) {
  std::string line;
  while (session.connection.next_line(line)) {
    const std::string_view kind = text_member(line, "kind");
    if (kind == "ack" && session.capture != nullptr) {
      acknowledge_run(session, number_member(line, "seq"));
    } else if (kind == "closed" && session.phase == Phase::kClosing &&
               text_member(line, "run") == session.facts.run) {
      end_run(session);
    } else if (kind == "start") {
      start_was_ordered(session, line);
    } else if (kind == "stop") {
      stop_was_ordered(session);
    } else if (kind == "refused") {
      give_up_run(session);
      session.refused = true;
      return false;
    }
  }
  return session.connection.is_open();
}

void follow_counting(Session& session, std::uint64_t now) {
  if (session.phase != Phase::kIdle || session.counted_share == 0) return;
  if (!session.counting) {
    if (TorchSection torch; torch && session.observers.install_counter != nullptr) {
      session.observers.install_counter(session.counted_share);
    }
    session.counting = true;
    session.counting_since_ns = session.last_counts_ns = now;
    if (session.connection.is_open()) send_state(session);
    return;
  }
  if (now - session.last_counts_ns < kCountsNs || !session.connection.is_open()) return;
  session.last_counts_ns = now;
  std::string line;
  append_counts_line(line, session.counted_share, session.counted_ns + now - session.counting_since_ns);
  if (line.size() < kMaxCountsBytes) session.connection.send(line, -1, is_exiting, &session);
}

void send_state(Session& session) {
  std::string line = "{\"kind\":\"state\",\"state\":";
  append_json_string(line, state_name(session));
  session.last_state_ns = monotonic_ns();
  if (CaptureState* capture = session.capture) {
    if (session.announced) {
      line += ",\"run\":";
      append_json_string(line, session.facts.run);
    }
    append_member(line, "step", capture->steps.number.load(std::memory_order_relaxed));
    const std::uint32_t rings = capture->memory.header->rings_used.load(std::memory_order_acquire);
    std::uint64_t offered = 0, stored = 0;
    for (std::uint32_t ring = 0; ring < rings; ++ring) {
      offered += capture->memory.rings[ring].offered.load(std::memory_order_relaxed);
      stored += capture->memory.rings[ring].stored.load(std::memory_order_relaxed);
    }
    append_member(line, "rings", rings);
    append_member(line, "offered", offered);
    append_member(line, "dropped", offered > stored ? offered - stored : 0);
  }
  if (!session.error.empty()) {
    line += ",\"error\":";
    append_json_string(line, session.error);
  }
  line += "}\n";
  session.connection.send(line, -1, is_exiting, &session);
}

void sample_memory(Session& session, std::uint64_t now) noexcept {
  if (now - session.last_sample_ns < kSampleNs || session.phase != Phase::kCapturing) return;
  if (session.capture->stop_ns.load(std::memory_order_acquire) != 0) return;
  session.last_sample_ns = now;
  const std::uint64_t used = resident_bytes();
  if (used == 0) return;
  unsigned char* room = session.control.reserve(sizeof(DeviceMemoryRecord));
  if (room == nullptr) return;
  auto* record = reinterpret_cast<DeviceMemoryRecord*>(room);
  *record = DeviceMemoryRecord{};
  session.sampled_at_ns = session.capture->now();
  record->header = {sizeof *record, RecordType::kDeviceMemory, 0, session.sampled_at_ns};
  record->used = used;
  record->free = record->reserved = kNotObserved;
  record->capacity = session.memory_limit != 0 ? session.memory_limit : kNotObserved;
  record->device_index = -1;
  session.control.commit(sizeof *record);
}

}  // namespace tensortap::probe
