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

void Session::producer_line(LineKind kind, std::string_view line, Replies& replies) {
  if (kind == LineKind::kBatch && role_ == Role::kProbe) return take_batch(line, replies);
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
    return refuse("meta.run_id is not the run that hello named", replies);
  }
  meta_held_ = true;
  hold(line);
}

void Session::hold(std::string_view line) {
  held_.append(line).push_back('\n');
  last_line_ = Clock::now();
  if (role_ != Role::kPlain) return;
  if (whole_ == 0) first_whole_ = last_line_;
  whole_ = held_.size();
}

void Session::take_batch(std::string_view line, Replies& replies) {
  const auto batch = parse_object(line);
  const auto seq = batch ? unsigned_field(*batch, "seq") : std::nullopt;
  const json::value* list = batch ? batch->if_contains("cursors") : nullptr;
  if (!seq || list == nullptr || !list->is_array())
    return refuse("a batch line has seq and cursors", replies);
  for (const json::value& item : list->get_array()) {
    const json::array* pair = item.if_array();
    const auto ring = pair != nullptr && pair->size() == 2 ? as_unsigned((*pair)[0]) : std::nullopt;
    const auto position = ring ? as_unsigned((*pair)[1]) : std::nullopt;
    if (!position || *ring >= format::kMaxRings) return refuse("a cursor is [ring, position]", replies);
    std::uint64_t& reached = cursors_[static_cast<std::uint32_t>(*ring)];
    if (*position < reached) return refuse("a ring's cursor went back", replies);
    reached = *position;
  }
  if (!seq_) first_whole_ = Clock::now();
  seq_ = *seq;
  whole_ = held_.size();
  terminal_whole_ = terminal_held_;
  if (terminal_whole_) commit_whole(&replies);
}

std::optional<Session::Clock::time_point> Session::deadline() const {
  if (run_ == nullptr) return std::nullopt;
  if (role_ == Role::kProbe && seq_) return first_whole_ + kProbeMaxAge;
  if (role_ == Role::kPlain && whole_ > 0)
    return std::min(last_line_ + kPlainQuiet, first_whole_ + kPlainMaxAge);
  return std::nullopt;
}

void Session::commit_due(Replies& replies) {
  const auto due = deadline();
  if (due && *due <= Clock::now()) commit_whole(&replies);
}

// One frame of everything that is whole, then the acknowledgement.
void Session::commit_whole(Replies* replies) {
  if (run_ == nullptr || (whole_ == 0 && !seq_)) return;
  std::vector<Cursor> cursors;
  cursors.reserve(cursors_.size());
  for (const auto& [ring, position] : cursors_) cursors.push_back({ring, position});
  // Before the cursors that acknowledge them are on disk, where there is a meta line already.
  if (run_->has_meta()) run_->write_notes();
  run_->commit(std::string_view(held_).substr(0, whole_), cursors);
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
}

}  // namespace tensortap::collector
