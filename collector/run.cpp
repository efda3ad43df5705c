#include "collector/run.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstring>
#include <exception>

#include "collector/access.h"
#include "collector/json_fields.h"
#include "collector/limits.h"
#include "format/trace_reader.h"

namespace tensortap::collector {

using format::Cursor;
using format::Error;
using format::ErrorCode;
using format::Status;

namespace {

constexpr std::size_t kRefeedBytes = 1024 * 1024;

// Reads what the daemon itself needs of a terminal line.
class TerminalCatcher : public format::EventVisitor {
 public:
  void on_terminal(const format::Terminal& terminal, const format::Place&) override {
    failed = terminal.outcome == format::Outcome::kFailed;
    reason = terminal.reason.value_or("");
    ext = terminal.ext;
  }
  bool failed = true;
  std::string reason = "the producer's terminal record cannot be read";
  std::string ext;
};

// Line by line: a comparison of each byte would be a tenth of all that storing costs.
std::uint64_t count_lines(std::string_view text) {
  std::uint64_t lines = 0;
  for_each_line(text, [&](std::string_view) { ++lines; });
  return lines;
}

// The last line with its LF; `lines` is whole lines.
std::string_view last_line(std::string_view lines) {
  if (lines.empty()) return {};
  const std::size_t before = lines.rfind('\n', lines.size() - 2);
  return lines.substr(before == std::string_view::npos ? 0 : before + 1);
}

// A trace tells command lines and names of a job: its folder is its owner's alone. Of another user's run the
// mode bounds what its access control list gives to that user (access.h).
Status make_folders(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return {};
  if (errno == ENOENT) {
    const std::size_t slash = path.rfind('/');
    if (slash != std::string::npos && slash != 0) {
      if (Status status = make_folders(path.substr(0, slash), mode); !status) return status;
      if (::mkdir(path.c_str(), mode) == 0) return {};
    }
  }
  struct stat status {};
  const int error_number = errno;
  if (error_number == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
  return Error{ErrorCode::kIo, std::string("cannot make the folder: ") + std::strerror(error_number), path};
}

}  // namespace

Run::Run(RunInfo info, RunSurroundings surroundings)
    : info_(std::move(info)),
      around_(std::move(surroundings)),
      analysis_(std::make_unique<analyzers::Analysis>()) {}

format::Result<std::unique_ptr<Run>> Run::create(RunInfo info, RunSurroundings surroundings) {
  std::unique_ptr<Run> run(new Run(std::move(info), std::move(surroundings)));
  const bool foreign = run->info_.uid != ::geteuid();
  if (Status status = make_folders(run->info_.folder, foreign ? 0750 : 0700); !status) return status.error();
  if (foreign && run->around_.settings.other_users) {
    if (Status status = let_read(run->info_.folder, run->info_.uid); !status) {
      spdlog::warn("run {}: {}", run->info_.run, status.error().to_string());
    }
  }
  if (Status status = write_run_json(run->info_, run->is_durable(Durability::kSecond)); !status) {
    ::rmdir(run->info_.folder.c_str());  // an empty one would be there for ever
    return status.error();
  }
  return run;
}

std::unique_ptr<Run> Run::adopt(RunInfo info, RunSurroundings surroundings) {
  std::unique_ptr<Run> run(new Run(std::move(info), std::move(surroundings)));
  run->adopted_ = true;
  // What was refused before is in no file but run.json.
  for (const auto& [cause, lines] : run->info_.ledger.dropped) {
    const std::string_view stage = stage_of(cause);
    if (stage == "socket" || stage == "daemon") run->refused_[cause] = lines;
  }
  return run;
}

Status Run::open() {
  if (!adopted_) return {};
  Status status = reopen();
  if (status.ok()) adopted_ = false;
  return status;
}

Status Run::reopen() {
  writer_.reset();
  if (::access(path().c_str(), F_OK) != 0) return {};  // its first frame was never written
  auto opened = format::TraceFileWriter::open_for_append(path());
  if (!opened && opened.error().code == ErrorCode::kTruncated) {
    // A crash inside the first write: nothing in it can be kept, and nothing of it was acknowledged.
    ::unlink(path().c_str());
    return {};
  }
  if (!opened) return opened.error();
  auto& [writer, kept] = *opened;
  if (kept.cut_bytes > 0) spdlog::warn("{}: cut {} bytes of a torn last frame off", path(), kept.cut_bytes);
  writer_.emplace(std::move(writer));
  for (const Cursor& cursor : kept.cursors) cursors_[cursor.ring] = cursor;
  meta_line_ = kept.meta_line;
  account_stored();
  has_terminal_ = kept.has_terminal;
  lines_written_ = kept.lines;
  refeed_ = true;
  pending_.clear();
  return {};
}

void Run::set_image(RingImage image) {
  info_.memfd_bytes = image.bytes();
  image_.emplace(std::move(image));
}

std::vector<Cursor> Run::cursors() const {
  std::vector<Cursor> all;
  all.reserve(cursors_.size());
  for (const auto& [ring, cursor] : cursors_) all.push_back(cursor);
  return all;
}

std::vector<Cursor> Run::cursors_with(const std::vector<Cursor>& more) const {
  std::vector<Cursor> all = cursors();
  all.insert(all.end(), more.begin(), more.end());  // the later one of a ring counts
  return all;
}

void Run::drop_line(const std::string& cause, std::uint64_t lines) {
  count(cause, lines);
  refused_[cause] += lines;
}

Ledger Run::ledger(bool ended) const { return ledger_of(cursors(), lines_written_, has_terminal_, ended); }

Ledger Run::ledger_of(const std::vector<Cursor>& on_disk, std::uint64_t lines, bool closed,
                      bool ended) const {
  if (!image_) {
    Ledger ledger;
    ledger.stored = lines;
    ledger.dropped = refused_;
    if (lines_lost_ > 0) ledger.dropped[stop_cause_] = lines_lost_;
    ledger.offered = ledger.stored + sum_of(ledger.dropped);
    return ledger;
  }
  Losses losses;
  losses.refused = refused_;
  losses.recovered = recovery_.records;
  losses.ended = ended;
  using Text = std::string;
  losses.missing_cause = write_failed()                  ? stop_cause_
                         : recovery_.malformed_rings > 0 ? Text("ring_malformed")
                         : recovery_.too_much            ? Text("recovery_limit")
                         : closed                        ? Text("line_after_terminal")
                                                         : Text();
  Ledger ledger = settle_rings(image_->tally(), on_disk, losses);
  ledger.unknown_tail_bytes_max = recovery_.unread_bytes;
  if (write_failed() && !ledger.sequence) ledger.unknown_tail_bytes_max = image_->pending_bytes(on_disk);
  return ledger;
}

bool Run::commit(std::string_view lines, const std::vector<Cursor>& cursors, bool may_wait) {
  const std::uint64_t count_of_lines = count_lines(lines);
  std::string with_terminal;
  const std::string_view last = last_line(lines);
  const bool is_terminal = !last.empty() && gate_.classify(last) == LineKind::kTerminal;
  if (is_terminal && !terminal_written_) {  // ours has it
    with_terminal = lines.substr(0, lines.size() - last.size());
    with_terminal += terminal_with_ledger(last, count_of_lines, cursors);
    lines = with_terminal;
  }
  Status written = writing_stopped_ ? Status() : write(lines, cursors);
  if (!written && may_wait && written.error().code == ErrorCode::kIo) {
    if (!disk_waits_) {
      spdlog::warn("run {}: {}; it waits for the disk", info_.run, written.error().to_string());
    }
    disk_waits_ = true;
    count("disk_wait");
    ++around_.metrics.disk_waits;
    return false;
  }
  if (!written) fail_writing(written.error());
  if (writing_stopped_) {
    lines_lost_ += count_of_lines;
    return true;
  }
  if (disk_waits_) spdlog::info("run {}: the disk takes it again", info_.run);
  disk_waits_ = false;
  lines_written_ += count_of_lines;
  around_.metrics.lines_written += count_of_lines;
  ++around_.metrics.frames_written;
  account_stored();
  make_durable();
  plan_report();
  if (is_terminal) note_terminal(last_line(lines));
  for (const Cursor& cursor : cursors) {
    if (cursor.position >= cursors_[cursor.ring].position) cursors_[cursor.ring] = cursor;
  }
  if (around_.settings.analyze) pending_.append(lines);
  return true;
}

// What a plain producer says of its own losses stays; ours are added to it.
std::string Run::terminal_with_ledger(std::string_view line, std::uint64_t lines,
                                      const std::vector<Cursor>& cursors) {
  namespace json = boost::json;
  auto terminal = parse_object(line);
  if (!terminal) return std::string(line);
  const Ledger ours = ledger_of(cursors_with(cursors), lines_written_ + lines, true, true);
  json::value& ext = (*terminal)["ext"];
  if (!ext.is_object()) ext = json::object();
  json::value& ledger = ext.get_object()["ledger"];
  if (info_.probe || !ledger.is_object()) {
    ledger = ledger_json(ours);
  } else if (!ours.dropped.empty()) {
    Ledger theirs = parse_ledger(ledger.get_object());
    add_to(theirs.dropped, ours.dropped);
    ledger.get_object()["offered"] = theirs.stored + sum_of(theirs.dropped);
    ledger.get_object()["dropped"] = counts_json(theirs.dropped);
  }
  return json::serialize(*terminal) + "\n";
}

void Run::note(std::string_view line) {
  if (!notes_.take(line)) return count("note_refused");
  const RunInfo& place = notes_.place();
  if (!place.rank || (place.rank == info_.rank && place.rank_source == info_.rank_source &&
                      place.world_size == info_.world_size && place.backend == info_.backend)) {
    return;
  }
  take_rank(rank_json(place), info_);
  // The note will not come again once it is acknowledged.
  if (Status status = write_run_json(info_); !status) {
    spdlog::error("run {}: {}", info_.run, status.error().to_string());
  }
}

void Run::write_notes() {
  if (!notes_.pending() || !writer_ || writing_stopped_) return;
  auto line = notes_.merged(meta_line_);
  Status status = line ? writer_->rewrite_meta(*line) : Status(line.error());
  if (!status) {
    count("meta_unreadable");
    spdlog::warn("run {}: its tags are not in its meta line: {}", info_.run, status.error().to_string());
    return;
  }
  meta_line_ = *line;
  analyze();  // it saw the old line, or sees it now
  analysis_->replace_meta(meta_line_);
}

Status Run::write(std::string_view lines, const std::vector<Cursor>& cursors) {
  std::string_view rest = lines;
  if (!writer_) {
    const std::string_view meta = lines.substr(0, lines.find('\n') + 1);
    auto created = format::TraceFileWriter::create(path(), meta);
    if (!created) return created.error();
    writer_.emplace(std::move(*created));
    meta_line_ = meta;
    rest.remove_prefix(meta.size());
    if (is_durable(Durability::kSecond)) {
      if (Status status = sync_folder(info_.folder); !status) return status;
    }
  } else if (rest.substr(0, meta_line_.size()) == meta_line_ && lines_written_ == 0) {
    rest.remove_prefix(meta_line_.size());  // tried again: the meta frame is there
  }
  if (!rest.empty() || !cursors.empty()) {
    if (Status status = writer_->append(rest, cursors); !status) return status;
  }
  return {};
}

// From here on nothing more is written: a gap in the middle would make the rest of the stream a lie.
void Run::fail_writing(const Error& error) {
  if (write_failed()) {
    writing_stopped_ = true;
    return;
  }
  count("write_failed");
  stop_writing("write_failed", "the collector could not write the trace: " + error.to_string());
}

void Run::stop_writing(const std::string& cause, const std::string& reason) {
  writing_stopped_ = true;
  if (write_failed()) return;
  stop_cause_ = cause;
  write_error_ = reason;
  spdlog::error("run {}: {}; the run goes on unstored", info_.run, write_error_);
  RunInfo failed = info_;
  failed.state = RunState::kFailed;
  failed.reason = write_error_;
  if (Status status = write_run_json(failed); !status) {
    spdlog::error("run {}: {}", info_.run, status.error().to_string());
  }
}

void Run::analyze() try {
  if (refeed_) refeed();
  gradients_.take(pending_);
  if (!pending_.empty()) analysis_->consume_lines(pending_);
  pending_.clear();
} catch (const std::exception& fault) {
  // The trace on disk is whole; only this report suffers.
  pending_.clear();
  count("analysis_fault");
  spdlog::error("run {}: the live analysis failed: {}", info_.run, fault.what());
}

// The file's content up to now, `pending_` included: a reopened file begins a new analysis.
void Run::refeed() {
  refeed_ = false;
  pending_.clear();
  analysis_ = std::make_unique<analyzers::Analysis>();
  gradients_.clear();
  auto reader = format::TraceReader::open(path());
  if (!reader) {
    count("analysis_fault");
    spdlog::error("run {}: {}", info_.run, reader.error().to_string());
    return;
  }
  std::string chunk, last;
  std::string_view line;
  format::Place place;
  while (reader->next_line(line, place)) {
    chunk.append(line).push_back('\n');
    if (has_terminal_ && !line.empty()) last = line;
    if (chunk.size() < kRefeedBytes) continue;
    gradients_.take(chunk);
    analysis_->consume_lines(chunk);
    chunk.clear();
  }
  gradients_.take(chunk);
  analysis_->consume_lines(chunk);
  if (has_terminal_) note_terminal(last);
}

void Run::note_terminal(std::string_view line) {
  TerminalCatcher catcher;
  format::LineReader reader;
  const Status status = reader.read(line, {}, catcher);
  has_terminal_ = true;
  terminal_failed_ = catcher.failed;
  terminal_reason_ = catcher.reason;
  terminal_ext_ = catcher.ext;
  if (!status) count("terminal_unreadable");
}

}  // namespace tensortap::collector
