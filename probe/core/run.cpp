// One run of this process with the collector: memory, hello, the way of the lines, the terminal.
#include <errno.h>

#include <algorithm>
#include <new>

#include "format/line_writer.h"
#include "probe/core/capture.h"
#include "probe/core/line_record.h"
#include "probe/core/notes.h"
#include "probe/core/process_group.h"
#include "probe/core/process_memory.h"
#include "probe/core/session_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

constexpr std::uint64_t kWelcomeNs = 2000 * kMs;
constexpr std::uint64_t kBorderPatienceNs =
    1000 * kMs;  // a running job that shows no step is captured at once
constexpr std::uint64_t kStepPatienceNs =
    60000 * kMs;  // one that has shown some, or has just begun, is waited for
constexpr std::uint64_t kNearSteps = 64;
constexpr std::size_t kMaxUnacknowledged = 32;      // batches under way
constexpr std::uint64_t kPoolBytes = 128ull << 20;  // sparse: costs what is used

void put_line(Session& session, std::string_view line, std::uint64_t time_ns) noexcept {
  const auto bytes = static_cast<std::uint32_t>(round_up_8(sizeof(LineRecord) + line.size()));
  if (bytes > kSegmentBytes) return;
  unsigned char* room = session.control.reserve(bytes);
  if (room == nullptr) return;
  write_line_record(room, bytes, line, time_ns);
  session.control.commit(bytes);
}

// What the job has said of its runs so far; what it says from now on it writes itself.
void put_notes(Session& session) {
  std::string notes;
  append_notes(notes);
  for (std::size_t begin = 0; begin < notes.size();) {
    const std::size_t end = notes.find('\n', begin) + 1;
    put_line(session, std::string_view(notes).substr(begin, end - begin), 0);
    begin = end;
  }
}

// Ready for threads, empty. nullptr: no memory.
CaptureState* fresh_capture(Session& session) {
  if (session.spare != nullptr) {
    CaptureState* again = session.spare;
    session.spare = nullptr;
    again->reset();
    return again;
  }
  auto* capture = new (std::nothrow) CaptureState;
  if (capture == nullptr) return nullptr;
  if (!capture->memory.create(kPoolBytes) || !capture->strings.create(&capture->memory) ||
      !capture->blocks.create() || !capture->tensors.create()) {
    return nullptr;  // nothing is given back: this happens once, and then never again
  }
  capture->clock_zero_ns = capture->memory.header->clock_zero_ns;
  return capture;
}

void put_in_place(Session& session, bool operators) noexcept {
  TorchSection torch;
  if (!torch) return;
  if (!session.steps_in_place && session.observers.install_steps != nullptr)
    session.observers.install_steps();
  session.steps_in_place = true;
  if (!operators || session.operators_in_place) return;
  if (session.observers.install_operators != nullptr) session.observers.install_operators();
  session.operators_in_place = true;
}

void take_away(Session& session) noexcept {
  TorchSection torch;
  if (torch && session.steps_in_place && session.observers.remove != nullptr) session.observers.remove();
  session.steps_in_place = session.operators_in_place = false;
}

void tell_started(Session& session) noexcept {
  TorchSection torch;
  if (torch && session.observers.started != nullptr) session.observers.started();
}

// Is the first step near? It must not pass while this thread sleeps: ten times what passed since the last
// look is near.
bool first_step_is_near(Session& session) noexcept {
  const std::uint64_t number = session.capture->steps.number.load(std::memory_order_relaxed);
  const std::uint64_t passed = number - session.steps_looked_at;
  session.steps_looked_at = number;
  return number + kNearSteps + 10 * passed >= session.capture->plan.first;
}

void open_at_once(Session& session) {
  CaptureState& capture = *session.capture;
  const std::uint64_t now = capture.now();
  put_line(session, window_line(now), now);
  open_window(&capture, now);
}

std::string terminal_line(Session& session, std::uint64_t end_ns, const int* status) {
  SharedMemory& memory = session.capture->memory;
  std::uint64_t offered = 0, stored = 0;
  std::uint64_t dropped[static_cast<std::size_t>(DropCause::kCount)] = {};
  const std::uint32_t used = memory.header->rings_used.load(std::memory_order_acquire);
  for (std::uint32_t ring = 0; ring < used; ++ring) {
    offered += memory.rings[ring].offered.load(std::memory_order_relaxed);
    stored += memory.rings[ring].stored.load(std::memory_order_relaxed);
    for (std::size_t cause = 0; cause < static_cast<std::size_t>(DropCause::kCount); ++cause) {
      dropped[cause] += memory.rings[ring].dropped[cause].load(std::memory_order_relaxed);
    }
  }
  std::string ext = "{\"ledger\":{\"offered\":";
  append_json_number(ext, offered);
  ext += ",\"stored\":";
  append_json_number(ext, stored);
  ext += ",\"dropped\":{";
  bool first = true;
  for (std::size_t cause = 0; cause < static_cast<std::size_t>(DropCause::kCount); ++cause) {
    if (dropped[cause] == 0) continue;
    if (!first) ext += ',';
    first = false;
    append_json_string(ext, drop_cause_name(static_cast<DropCause>(cause)));
    ext += ':';
    append_json_number(ext, dropped[cause]);
  }
  ext += "}}";
  if (status != nullptr) {
    ext += ",\"exit_status\":";
    append_json_number(ext, static_cast<std::int64_t>(*status));
  }
  ext += ",\"written_by\":\"probe\"}";
  Terminal terminal;
  terminal.timestamp_ns = end_ns;
  terminal.ext = ext;
  std::string line;
  LineWriter(line).write(terminal);
  return line;
}

}  // namespace

bool prepare_run(Session& session) {
  CaptureState* capture = fresh_capture(session);
  if (capture == nullptr) {
    session.refused = true;
    session.connection.close();
    return false;
  }
  session.facts = read_process_facts(session.observers.torch_version, session.parent_run);
  if (!session.settings.launch.empty()) session.facts.launch = session.settings.launch;
  session.memory_limit = memory_limit_bytes();
  session.capture = capture;
  delete session.drain;
  session.drain = nullptr;
  session.drain = new Drain(capture->memory);
  session.unacknowledged.clear();
  session.announced = session.finished = false;
  session.sampled_at_ns = session.steps_looked_at = 0;
  capture->memory.header->rings_used.store(1, std::memory_order_release);
  if (session.late && session.order.plan.begin == CapturePlan::Begin::kNow) {
    capture->memory.count(Counter::kLateArm);
  }
  capture->memory.rings[0].state.store(kRingOwned, std::memory_order_release);
  session.control.attach(&capture->memory, 0);

  const CapturePlan& plan = session.order.plan;
  capture->plan = StepPlan{};
  capture->plan.opens = plan.begin != CapturePlan::Begin::kNow;
  capture->plan.first = plan.begin == CapturePlan::Begin::kStep ? plan.first_step : 0;
  capture->plan.count = plan.steps;
  capture->plan.late = session.after_start;
  steps_continue(capture->steps);
  return true;
}

bool announce_run(Session& session) {
  CaptureState& capture = *session.capture;
  if (!session.connection.send(hello_line(session.facts, capture.memory.bytes, false), capture.memory.fd,
                               is_exiting, &session)) {
    return false;
  }
  session.announced = true;
  session.reported = false;
  put_line(session, meta_line(session.facts), 0);
  put_line(session, root_line(session.facts), 0);
  put_notes(session);
  return true;
}

void follow_process_group(Session& session) {
  const std::uint32_t version = group_version();
  if (version == session.group_seen) return;
  session.group_seen = version;
  if (!adopt_process_group(session.facts)) return;
  if (!session.announced) {
    session.reported = false;
  } else if (!session.finished) {
    // Not after the end of a window that a step has closed: ring 0 goes on there.
    const std::uint64_t stopped = session.capture->stop_ns.load(std::memory_order_acquire);
    const std::uint64_t now =
        stopped != 0 ? std::max(stopped, session.sampled_at_ns) : session.capture->now();
    put_line(session, rank_note_line(session.facts), now);
  }
}

void open_run_now(Session& session) {
  put_in_place(session, true);
  open_at_once(session);
  tell_started(session);
  session.phase = Phase::kCapturing;
  session.last_flush_ns = session.last_busy_ns = monotonic_ns();
}

void follow_plan(Session& session, std::uint64_t now) {
  if (session.phase == Phase::kWatching) {
    if (!session.steps_in_place) {
      put_in_place(session, false);
      arm_capture(session.capture);
      tell_started(session);
    }
    if (!first_step_is_near(session) || !session.connection.is_open()) return;
    if (!announce_run(session)) return;
    put_in_place(session, true);
    session.phase = Phase::kReady;
    session.ready_ns = now;
  }
  if (session.phase == Phase::kReady) {
    // Who asked for iterations is given iterations; who asked for some seconds is given them, be there none.
    const bool may_give_up = session.order.plan.duration_ns != 0;
    const bool has_steps = session.capture->steps.number.load(std::memory_order_relaxed) != 0;
    const std::uint64_t patience = has_steps || !session.after_start ? kStepPatienceNs : kBorderPatienceNs;
    // A job that has just begun may take its time until the first operator.
    const bool has_begun = session.capture->memory.header->threads_seen.load(std::memory_order_relaxed) != 0;
    if (!session.after_start && !has_begun) session.ready_ns = now;
    if (!window_is_open() && may_give_up && now - session.ready_ns > patience) open_at_once(session);
    if (!window_is_open()) return;
    session.phase = Phase::kCapturing;
    session.last_flush_ns = session.last_busy_ns = now;
  }
  if (session.phase != Phase::kCapturing) return;
  CaptureState& capture = *session.capture;
  const std::uint64_t limit = session.order.plan.duration_ns;
  const bool stopped = capture.stop_ns.load(std::memory_order_acquire) != 0;
  const bool over = limit != 0 && capture.now() - g_window_ns.load(std::memory_order_acquire) >= limit;
  if (stopped || over) close_run(session, nullptr);
}

void close_run(Session& session, const int* exit_status) {
  if (session.capture == nullptr || session.finished || !session.announced) return;
  CaptureState& capture = *session.capture;
  follow_process_group(session);  // of a job that ends before this thread looked again
  if (session.phase == Phase::kCapturing) {
    session.last_sample_ns = 0;  // the end is sampled, whenever the last one was
    sample_memory(session, monotonic_ns());
  }
  if (!window_is_open()) {  // the step that was waited for never came
    open_at_once(session);
    capture.memory.count(Counter::kWindowNeverReached);
  }
  const std::uint64_t window = g_window_ns.load(std::memory_order_acquire);
  const std::uint64_t patience = exit_status != nullptr ? 200 * kMs : 2000 * kMs;
  // A sample of this thread's may have come after the step that closed the window.
  const std::uint64_t end =
      std::max(close_window(session.capture, patience, &session.quiet), session.sampled_at_ns);
  if (exit_status == nullptr) take_away(session);
  // The records are merged by time, ring 0 first: these three come after what the threads wrote at the very
  // end.
  const std::uint64_t behind = end + 1;
  std::string line;
  LineWriter(line).write(SpanEnd{"s0.2", end - window, ""});
  put_line(session, line, behind);
  line.clear();
  LineWriter(line).write(SpanEnd{"s0.1", end, ""});
  put_line(session, line, behind);
  put_line(session, terminal_line(session, end, exit_status), behind);
  session.finished = true;
  session.phase = Phase::kClosing;
  session.closing_ns = monotonic_ns();
}

void abandon_run(Session& session) {
  if (session.capture == nullptr) return;
  if (!session.finished) close_window(session.capture, 50 * kMs, &session.quiet);
  take_away(session);
  end_run(session);
}

void give_up_run(Session& session) {
  session.late = session.late || session.capture != nullptr;
  abandon_run(session);
  session.connection.close();
}

void end_run(Session& session) {
  CaptureState* capture = session.capture;
  session.capture = nullptr;
  session.phase = Phase::kIdle;
  session.announced = session.finished = session.reported = false;
  session.unacknowledged.clear();
  delete session.drain;
  session.drain = nullptr;
  g_capturing.store(false, std::memory_order_seq_cst);
  if (!session.quiet) return;  // a thread may still be writing into it: it is left alone for ever
  capture->give_back();
  session.spare = capture;
}

// The collector answers with positions: each is the end of a batch, of which we know the number of records.
static Cursors with_records(Cursors cursors, const Session& session) {
  for (RingCursor& cursor : cursors) {
    for (const Batch& batch : session.unacknowledged) {
      for (const RingCursor& sent : batch.cursors) {
        if (sent.ring == cursor.ring && sent.position == cursor.position) cursor.records = sent.records;
      }
    }
  }
  return cursors;
}

bool resume_run(Session& session) {
  if (!session.connection.open(session.socket_path)) return false;
  if (!session.announced) return true;
  SharedMemory& memory = session.capture->memory;
  if (!session.connection.send(hello_line(session.facts, memory.bytes, true), memory.fd, is_exiting,
                               &session)) {
    return false;
  }
  const std::uint64_t give_up = monotonic_ns() + kWelcomeNs;
  std::string line;
  while (monotonic_ns() < give_up && !is_exiting(&session)) {
    if (!session.connection.receive(20)) return false;
    while (session.connection.next_line(line)) {
      const std::string_view kind = text_member(line, "kind");
      if (kind == "refused") {
        const bool wanted = session.phase != Phase::kClosing;
        give_up_run(session);
        session.wanted = wanted;  // the next try starts a new run
        session.after_start = true;
        return false;
      }
      if (kind != "welcome") continue;
      const Cursors cursors = with_records(cursor_member(line, "cursors"), session);
      session.drain->release(cursors);
      session.drain->rewind(cursors);
      session.unacknowledged.clear();
      return true;
    }
  }
  session.connection.close();
  return false;
}

void flush_run(Session& session) {
  Cursors cursors;
  while (session.unacknowledged.size() < kMaxUnacknowledged && !is_exiting(&session)) {
    session.text.clear();
    if (!session.drain->collect(session.text, cursors)) return;
    const std::uint64_t seq = ++session.batch_seq;
    const auto lines = std::count(session.text.begin(), session.text.end(), '\n');
    append_batch_line(session.text, seq, static_cast<std::uint64_t>(lines), cursors);
    session.unacknowledged.push_back({seq, cursors});
    if (!session.connection.send(session.text, -1, is_exiting, &session)) {
      // Half a batch may be under way: the daemon drops it, resume sends it again.
      session.connection.close();
      return;
    }
  }
}

void acknowledge_run(Session& session, std::uint64_t seq) {
  while (!session.unacknowledged.empty() && session.unacknowledged.front().seq <= seq) {
    session.drain->release(session.unacknowledged.front().cursors);
    session.unacknowledged.pop_front();
  }
}

}  // namespace tensortap::probe
