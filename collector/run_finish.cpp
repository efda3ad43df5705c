// The end of a run: what is left in its rings, its terminal, its final coverage, its reports.
#include <spdlog/spdlog.h>

#include <boost/json/serialize.hpp>
#include <exception>

#include "analyzers/render/json.h"
#include "analyzers/render/text.h"
#include "collector/coverage.h"
#include "collector/json_fields.h"
#include "collector/limits.h"
#include "collector/run.h"
#include "format/line_writer.h"
#include "format/ring_layout.h"

namespace tensortap::collector {

using format::Cursor;
using format::Status;
namespace json = boost::json;

void Run::finish(const Ending& ending) {
  if (Status status = open(); !status) {
    // Left as it is, for somebody to look at.
    stop_writing("write_failed", status.error().to_string());
  }
  analyze();
  if (image_ && !has_terminal_ && !write_failed()) recover_rings();
  resume_writing();
  // Nothing was analyzed: a probe's coverage, and the time of a terminal of ours, need the content.
  if (!around_.settings.analyze && writer_ && (info_.probe || !has_terminal_)) {
    refeed_ = true;
    analyze();
  }
  settle_ledger(ending);

  std::string reason = write_failed() ? write_error_ : ending.reason;
  if (!writer_ && !write_failed()) reason += "; nothing of it was stored";
  if (writer_ && !has_terminal_) write_terminal(reason);
  const bool failed = write_failed() || !writer_ || terminal_failed_;
  info_.state = failed ? RunState::kFailed : RunState::kComplete;
  info_.reason = !failed ? "" : terminal_failed_ && !write_failed() ? terminal_reason_ : reason;
  info_.ended = utc_now();
  if (lines_lost_ > 0) count("line_not_written", lines_lost_);
  if (writer_) {
    write_notes();
    if (info_.probe) {
      settle_meta();
    } else {
      settle_claims();
    }
    if (around_.settings.analyze) write_reports();
    if (Status status = writer_->finish(); !status)  // the trace is whole without it
      spdlog::warn("run {}: {}", info_.run, status.error().to_string());
    if (is_durable(Durability::kEnd)) sync();
    account_stored();
  }
  const bool durable = is_durable(Durability::kEnd) && writer_;
  const Status saved = write_run_json(info_, durable);
  saved_ = saved.ok();
  if (!saved) spdlog::error("run {}: {}", info_.run, saved.error().to_string());
  writer_.reset();
  image_.reset();
  analysis_.reset();
}

void Run::recover_rings() {
  std::string terminal;
  auto result = image_->recover(cursors(), [&](std::string_view lines, const std::vector<Cursor>& reached) {
    recovered(lines, reached, terminal);
    return Status();
  });
  if (!result) {
    spdlog::error("run {}: {}", info_.run, result.error().to_string());
  } else {
    recovery_ = *result;
  }
  // Last, whatever the merge said: nothing may stand behind it.
  if (!terminal.empty() && has_meta()) commit(terminal, {});
  analyze();
  if (recovery_.too_much) count("recovery_limit");
  if (recovery_.malformed_rings > 0) count("ring_malformed", recovery_.malformed_rings);
  if (recovery_.records > 0)
    spdlog::debug("run {}: {} records were left in its rings", info_.run, recovery_.records);
}

// What the drain would have sent, seen with the same eyes: meta first and once, terminal last and once.
void Run::recovered(std::string_view lines, const std::vector<Cursor>& cursors, std::string& terminal) {
  std::string kept;
  kept.reserve(lines.size());
  bool meta_seen = has_meta();
  for_each_line(lines, [&](std::string_view line) {
    const LineKind kind = gate_.classify(line);
    if (kind == LineKind::kNote) return note(line);
    if (kind == LineKind::kMeta && !meta_seen) {
      meta_seen = true;
    } else if (kind == LineKind::kMeta) {
      return;  // the frame with its cursors was lost, the meta frame was not
    } else if (kind == LineKind::kTerminal) {
      if (terminal.empty()) terminal.assign(line).push_back('\n');
      return;
    } else if (kind != LineKind::kRecord) {
      return drop_line("bad_line");
    } else if (line.size() > kMaxLineBytes) {
      return drop_line("line_too_long");
    } else if (!meta_seen) {
      return drop_line("line_before_meta");
    }
    kept.append(line).push_back('\n');
  });
  if (meta_seen) commit(kept, cursors);
  analyze();
}

void Run::settle_ledger(const Ending& ending) {
  Ledger& ledger = info_.ledger;
  ledger = this->ledger(true);
  if (image_) {
    for (const auto& [name, value] : image_->tally().counters) info_.diagnostics[name] = value;
    if (recovery_.replaced_bytes > 0) {  // beside those that the probe's drain replaced
      count(format::counter_name(format::Counter::kReplacedBytes), recovery_.replaced_bytes);
    }
    return;
  }
  if (info_.probe && has_terminal_) {
    // The rings are gone (the daemon was started anew); the producer's own account is in its terminal.
    const auto ext = parse_object(terminal_ext_);
    if (const json::object* own = ext ? find_object(*ext, "ledger") : nullptr) ledger = parse_ledger(*own);
    return;
  }
  if (!ending.tail_lost) return;
  ledger.unknown_tail_bytes_max.reset();
  if (info_.memfd_bytes != 0) ledger.unknown_tail_bytes_max = info_.memfd_bytes;
  count("unknown_tail");
}

// The disk may have room again. The stream ends at its last whole frame: what came after it was counted and
// let go, so only the ending can still be written.
void Run::resume_writing() {
  if (!writing_stopped_ || !reopen()) return;
  writing_stopped_ = false;
  analyze();
}

void Run::write_terminal(const std::string& reason) {
  json::object ext{{"ledger", ledger_json(info_.ledger)}, {"written_by", "collectord"}};
  const std::string ext_text = json::serialize(ext);
  format::Terminal terminal;
  terminal.outcome = format::Outcome::kFailed;
  terminal.timestamp_ns = analysis_->facts().latest_ns;
  terminal.reason = reason;
  terminal.ext = ext_text;
  std::string line;
  format::LineWriter(line).write(terminal);
  terminal_written_ = true;
  commit(line, {});
  analyze();
}

void Run::settle_meta() {
  const json::value* told = nullptr;
  const auto first_meta = parse_object(meta_line_);
  if (first_meta) {
    const json::object* ext = find_object(*first_meta, "ext");
    told = ext == nullptr ? nullptr : ext->if_contains("diagnostics");
  }
  // Settled by a daemon that died before its last step, with the counters at hand that are gone now.
  if (told != nullptr && !image_) return;

  Truth truth;
  truth.facts = analysis_->facts();
  truth.complete = info_.state == RunState::kComplete;
  truth.losses_known = image_.has_value();
  truth.lost = !info_.ledger.dropped.empty() || info_.ledger.unknown_tail_bytes_max != std::uint64_t{0};
  truth.gradients = gradients_.contract();
  if (truth.facts.gradients > 0 && !truth.gradients) count("gradient_manifest_missing");
  truth.diagnostics = info_.diagnostics;
  change_meta(final_meta_line(meta_line_, truth));
}

// A plain producer's claims are its own, as far as what it sent is there.
void Run::settle_claims() {
  const bool lost = !info_.ledger.dropped.empty() || info_.ledger.unknown_tail_bytes_max != std::uint64_t{0};
  const bool cut = terminal_written_;
  if (!lost && !cut) return;
  const auto line = lowered_meta_line(meta_line_, info_.diagnostics);
  if (line && *line == meta_line_) return;  // it claimed nothing that is not true any more
  change_meta(line);
}

void Run::change_meta(const format::Result<std::string>& line) {
  if (!line) {
    count("meta_unreadable");
    spdlog::warn("run {}: its meta line stays as it was sent: {}", info_.run, line.error().to_string());
    return;
  }
  if (Status status = writer_->rewrite_meta(*line); !status) {
    spdlog::error("run {}: {}", info_.run, status.error().to_string());
    return;
  }
  meta_line_ = *line;
  analysis_->replace_meta(meta_line_);
}

void Run::write_reports() try {
  if (!has_terminal_) analysis_->state_ledger(ledger_json(info_.ledger));  // the run goes on
  const json::object report = analysis_->report();
  for (const auto& [name, content] : {std::pair{"/report.json", analyzers::report_json(report)},
                                      std::pair{"/report.txt", analyzers::render_text(report)}}) {
    if (Status status = replace_file(info_.folder + name, content); !status) {
      spdlog::error("run {}: {}", info_.run, status.error().to_string());
    }
  }
} catch (const std::exception& fault) {
  count("analysis_fault");
  spdlog::error("run {}: the report failed: {}", info_.run, fault.what());
}

}  // namespace tensortap::collector
