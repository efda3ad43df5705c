// What a producer's lines do: held back, made whole by a batch (or at once, of a plain producer), committed.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "collector/json_fields.h"
#include "collector/limits.h"
#include "collector/session.h"
#include "format/ring_layout.h"

namespace tensortap::collector {

namespace json = boost::json;
using format::Cursor;

namespace {

// [ring, position] or [ring, position, records]
std::optional<Cursor> parse_cursor(const json::value& item) {
  const json::array* parts = item.if_array();
  if (parts == nullptr || parts->size() < 2 || parts->size() > 3) return std::nullopt;
  const auto ring = as_unsigned((*parts)[0]);
  const auto position = as_unsigned((*parts)[1]);
  const auto records = parts->size() == 3 ? as_unsigned((*parts)[2]) : std::optional<std::uint64_t>(0);
  if (!ring || !position || !records || *ring >= format::kMaxRings) return std::nullopt;
  return Cursor{static_cast<std::uint32_t>(*ring), *position, *records};
}

}  // namespace

void Session::producer_line(LineKind kind, std::string_view line, Replies& replies) {
  if (kind == LineKind::kBatch && role_ == Role::kProbe) return take_batch(line, replies);
  ++lines_since_batch_;
  if (kind == LineKind::kNote && role_ == Role::kProbe) {
    run_->note(line);
    // A process is found by its rank also where that came late.
    if (take_rank(rank_json(run_->info()), producer_.who)) news_ = true;
    return;
  }
  if (kind == LineKind::kMeta && !terminal_held_) return take_meta(line, replies);
  const bool record = kind == LineKind::kRecord || kind == LineKind::kTerminal;
  if (!record && kind != LineKind::kMeta) return run_->drop_line("bad_line");
  if (terminal_held_ || done_) return run_->drop_line("line_after_terminal");
  if (!meta_held_) return run_->drop_line("line_before_meta");
  hold(line);
  if (kind != LineKind::kTerminal) return;
  terminal_held_ = true;
  if (role_ == Role::kPlain) {
    terminal_whole_ = true;
    commit_whole(nullptr);
  }
}

void Session::take_meta(std::string_view line, Replies& replies) {
  if (meta_held_) {
    // After a resume the ring's first record may come again: the meta frame was written, the frame with its
    // cursor not.
    if (role_ == Role::kPlain || !run_->has_meta()) run_->drop_line("repeated_meta");
    return;
  }
  const auto meta = parse_object(line);
  if (!meta || string_field(*meta, "run_id") != run_->info().run) {
    return refuse("protocol", "meta.run_id is not the run that hello named", replies);
  }
  meta_held_ = true;
  hold(line);
}

void Session::hold(std::string_view line) {
  held_.append(line).push_back('\n');
  last_line_ = fed_at_;
  if (role_ != Role::kPlain) return;
  if (whole_ == 0) first_whole_ = last_line_;
  whole_ = held_.size();
}

void Session::take_batch(std::string_view line, Replies& replies) {
  const auto batch = parse_object(line);
  const auto seq = batch ? unsigned_field(*batch, "seq") : std::nullopt;
  const json::value* list = batch ? batch->if_contains("cursors") : nullptr;
  if (!seq || list == nullptr || !list->is_array())
    return refuse("protocol", "a batch line has seq and cursors", replies);
  for (const json::value& item : list->get_array()) {
    const auto cursor = parse_cursor(item);
    if (!cursor) return refuse("protocol", "a cursor is [ring, position, records]", replies);
    Cursor& reached = cursors_[cursor->ring];
    if (cursor->position < reached.position) return refuse("protocol", "a ring's cursor went back", replies);
    reached = *cursor;
  }
  // A stream loses nothing on its way; what is missing all the same was not sent, or not as lines.
  const std::uint64_t sent = unsigned_field(*batch, "lines").value_or(lines_since_batch_);
  if (sent > lines_since_batch_) run_->drop_line("lines_missing", sent - lines_since_batch_);
  lines_since_batch_ = 0;
  if (!seq_) first_whole_ = Clock::now();
  seq_ = *seq;
  whole_ = held_.size();
  terminal_whole_ = terminal_held_;
  if (terminal_whole_) commit_whole(&replies);
}

std::optional<Session::Clock::time_point> Session::deadline() const {
  if (run_ == nullptr) return std::nullopt;
  std::optional<Clock::time_point> due = run_->sync_deadline();
  if (run_->report_deadline())
    due = due ? std::min(*due, *run_->report_deadline()) : *run_->report_deadline();
  const auto sooner = [&](Clock::time_point when) { due = due ? std::min(*due, when) : when; };
  if (stalled_until_) {
    sooner(*stalled_until_);
  } else if (role_ == Role::kProbe && seq_) {
    sooner(first_whole_ + kProbeMaxAge);
  } else if (role_ == Role::kPlain && whole_ > 0) {
    sooner(std::min(last_line_ + kPlainQuiet, first_whole_ + kPlainMaxAge));
  }
  return due;
}

void Session::commit_due(Replies& replies) {
  const auto now = Clock::now();
  const auto due = deadline();
  if (!due || *due > now) return;
  if (run_->sync_deadline() && *run_->sync_deadline() <= now) run_->sync();
  commit_now(replies);
  if (run_ != nullptr && run_->report_deadline() && *run_->report_deadline() <= now) run_->report();
}

void Session::commit_now(Replies& replies) {
  commit_whole(&replies);
  account();
  if (!over_quota_.empty()) refuse("quota_bytes", std::exchange(over_quota_, {}), replies);
}

// What was taken stays; what comes from now on is counted and let go.
void Session::check_quota() {
  if (run_->write_failed()) return;
  const std::string fault = store_.quota_fault(run_->info().uid);
  if (fault.empty()) return;
  run_->stop_writing("quota_bytes", fault);
  over_quota_ = fault;
}

// One frame of everything that is whole, then the acknowledgement.
void Session::commit_whole(Replies* replies, Commit commit) {
  if (run_ == nullptr || (whole_ == 0 && !seq_)) return;
  check_quota();
  std::vector<Cursor> cursors;
  cursors.reserve(cursors_.size());
  for (const auto& [ring, cursor] : cursors_) cursors.push_back(cursor);
  // Before the cursors that acknowledge them are on disk, where there is a meta line already.
  if (run_->has_meta()) run_->write_notes();
  // A probe's rings hold what is not acknowledged: it can wait until the disk takes it again.
  const bool may_wait = role_ == Role::kProbe && commit == Commit::kOngoing;
  const bool waits = !run_->commit(std::string_view(held_).substr(0, whole_), cursors, may_wait);
  stalled_until_.reset();
  if (waits) {
    stalled_until_ = Clock::now() + kDiskRetry;
    return;
  }
  run_->write_notes();
  if (whole_ == held_.size() && held_.capacity() > 2 * kProbeFrameBytes) {
    std::string().swap(held_);  // a burst does not keep its memory
  } else {
    held_.erase(0, whole_);
  }
  whole_ = 0;
  cursors_.clear();
  if (seq_ && replies != nullptr) {
    replies->text += json::serialize(json::object{{"kind", "ack"}, {"seq", *seq_}}) + "\n";
  }
  seq_.reset();
  done_ = done_ || terminal_whole_;
}

void Session::drop_tail() {
  // A probe's is still in its ring.
  if (lines_.unfinished_bytes() > 0 && !run_->info().probe) run_->drop_line("unfinished_line");
  lines_.clear();
  std::string().swap(held_);  // an assignment would keep the memory
  whole_ = 0;
  cursors_.clear();
  seq_.reset();
  stalled_until_.reset();
}

}  // namespace tensortap::collector
