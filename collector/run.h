// One run: its folder, its trace file, its live analysis. From the first line to the report.
//
//   Result<unique_ptr<Run>> run = Run::create(info);        // folder and run.json
//   run->commit(lines, cursors);                            // one frame; the first line ever is the meta
//   line run->analyze();                                         // what was committed, after the
//   acknowledgement run->finish({"process 71 died without closing its run"});
//
// A write that fails never stops the daemon: the run is marked failed with the reason, what still comes is
// counted.
//
// Thread rules: one thread at a time; it moves with its owner (a session, the store, a grace watch).
// Ownership: owns the file, the memfd and the analysis.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzers/analysis.h"
#include "collector/gradient_manifest.h"
#include "collector/line_gate.h"
#include "collector/metrics.h"
#include "collector/ring_recovery.h"
#include "collector/run_info.h"
#include "collector/run_notes.h"
#include "collector/settings.h"
#include "collector/user_account.h"
#include "format/container.h"

namespace tensortap::collector {

// Why and how a run ends that has no terminal line of its own.
struct Ending {
  std::string reason;      // for the terminal that the daemon writes
  bool tail_lost = false;  // the producer may have held more, and nobody can read it any more
};

// What a run has of its daemon; outlives it.
struct RunSurroundings {
  const Settings& settings;
  Metrics& metrics;
  std::shared_ptr<UserAccount> account;  // of its user
};

class Run {
 public:
  using Clock = std::chrono::steady_clock;

  // Makes info.folder (with its parents) and run.json.
  static format::Result<std::unique_ptr<Run>> create(RunInfo info, RunSurroundings surroundings);
  // A run that another life of this daemon left open; open() before anything else.
  static std::unique_ptr<Run> adopt(RunInfo info, RunSurroundings surroundings);
  format::Status open();  // does nothing when it is

  const RunInfo& info() const { return info_; }
  RunInfo& info() { return info_; }
  void count(const std::string& code, std::uint64_t times = 1) { info_.diagnostics[code] += times; }
  void drop_line(const std::string& cause, std::uint64_t lines = 1);  // counted, and in the ledger

  void set_image(RingImage image);
  bool has_image() const { return image_.has_value(); }
  bool has_meta() const { return !meta_line_.empty(); }
  bool has_terminal() const { return has_terminal_; }
  bool write_failed() const { return !write_error_.empty(); }
  std::vector<format::Cursor> cursors() const;

  // The account as it stands; `ended`: nothing more comes of the producer.
  Ledger ledger(bool ended) const;

  // Writes whole lines as one frame. The first line of a run must be its meta line, a terminal its last; that
  // is stored with the ledger in its `ext`. False, with `may_wait`: the disk refuses for now; nothing was
  // taken, and the same may be tried again. Otherwise what cannot be written is counted and let go.
  bool commit(std::string_view lines, const std::vector<format::Cursor>& cursors, bool may_wait = false);
  // Nothing more is written but the end: what comes is counted under `cause`.
  void stop_writing(const std::string& cause, const std::string& reason);
  // --durability: when what was written must be on the medium.
  std::optional<Clock::time_point> sync_deadline() const { return sync_deadline_; }
  void sync();
  // When the reports of the open run are to be written again.
  std::optional<Clock::time_point> report_deadline() const { return report_deadline_; }
  void report();
  // Takes a `note` line; refused ones are counted. It is in the stored meta line after the next
  // write_notes().
  void note(std::string_view line);
  void write_notes();
  // Feeds what was committed to the analyzers.
  void analyze();

  // Saves the counts in run.json; the run stays open, for a resume or for the daemon's next life.
  void suspend();

  bool saved() const { return saved_; }  // run.json says how it ended
  std::uint64_t accounted_bytes() const { return accounted_bytes_; }

  // Takes what the producer left, writes the terminal if there is none, final coverage, reports, run.json.
  void finish(const Ending& ending);

 private:
  Run(RunInfo info, RunSurroundings surroundings);
  std::string path() const { return info_.folder + "/trace.jsonl.zst"; }

  format::Status reopen();
  void fail_writing(const format::Error& error);
  format::Status write(std::string_view lines, const std::vector<format::Cursor>& cursors);
  void make_durable();
  void plan_report();
  void account_stored();
  bool is_durable(Durability at_least) const { return around_.settings.durability >= at_least; }
  void refeed();
  void note_terminal(std::string_view line);
  // `line` is the terminal of `lines` more lines up to `cursors`.
  std::string terminal_with_ledger(std::string_view line, std::uint64_t lines,
                                   const std::vector<format::Cursor>& cursors);

  void recover_rings();
  void recovered(std::string_view lines, const std::vector<format::Cursor>& cursors, std::string& terminal);
  void settle_ledger(const Ending& ending);
  // With so many lines and these cursors on disk. `closed`: the producer's terminal is among them.
  Ledger ledger_of(const std::vector<format::Cursor>& on_disk, std::uint64_t lines, bool closed,
                   bool ended) const;
  std::vector<format::Cursor> cursors_with(const std::vector<format::Cursor>& more) const;
  void resume_writing();
  void write_terminal(const std::string& reason);
  void settle_meta();
  void settle_claims();
  void change_meta(const format::Result<std::string>& line);
  void write_reports();

  RunInfo info_;
  RunSurroundings around_;
  std::optional<format::TraceFileWriter> writer_;
  std::optional<RingImage> image_;
  std::unique_ptr<analyzers::Analysis> analysis_;
  LineGate gate_;
  std::map<std::uint32_t, format::Cursor> cursors_;
  std::string meta_line_;
  RunNotes notes_;
  GradientManifest gradients_;
  std::string pending_;   // committed, not yet analyzed
  bool adopted_ = false;  // its file is not open yet
  bool refeed_ = false;   // the file's content was not analyzed in this process
  bool has_terminal_ = false;
  bool terminal_failed_ = false;
  bool terminal_written_ = false;  // by us: the producer did not close its run
  std::string terminal_reason_;
  std::string terminal_ext_;
  std::string write_error_;  // why nothing more is written
  std::string stop_cause_;   // write_failed, quota_bytes
  bool writing_stopped_ = false;
  bool saved_ = false;
  bool disk_waits_ = false;  // the last write was refused and is tried again
  std::optional<Clock::time_point> sync_deadline_, report_deadline_;
  Clock::time_point earliest_report_{};
  std::uint64_t accounted_bytes_ = 0;  // of the file, in the account
  std::uint64_t lines_written_ = 0;
  std::uint64_t lines_lost_ = 0;  // came after a write had failed
  Counts refused_;                // cause → lines
  Recovery recovery_;
};

}  // namespace tensortap::collector
