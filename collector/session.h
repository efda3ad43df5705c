// The protocol of one connection, without its socket: bytes in, replies out, runs into the store
// (proto/session.md).
//
//   Session session(store, peer, budget);
//   Replies replies;
//   session.take_fd(std::move(memfd));          // came with the bytes, before they are fed
//   session.feed(bytes, replies);               // lines are held back until they are whole: a batch, or
//   enough of them …send replies.text… session.work();                             // analysis and finishing,
//   after the acknowledgement is out session.close_run("process 71 died without closing its run");
//
// Thread rules: one thread at a time. Ownership: borrows store and peer; owns the run while the producer is
// connected.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "collector/hello.h"
#include "collector/line_buffer.h"
#include "collector/line_gate.h"
#include "collector/memory_budget.h"
#include "collector/peer.h"
#include "collector/producers.h"
#include "collector/store.h"
#include "collector/unique_fd.h"

namespace tensortap::collector {

struct Replies {
  std::string text;    // whole lines
  bool close = false;  // after the text
};

struct ControlRequest {
  enum class Command : std::uint8_t { kRuns, kWait, kList, kStart, kStop };
  Command command = Command::kRuns;
  Selector selector;    // runs and wait look at its launch only
  std::string capture;  // kStart
  std::chrono::milliseconds timeout{0};
};

class Session {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Role : std::uint8_t { kUnknown, kPlain, kProbe, kControl, kRefused };

  Session(Store& store, const Peer& peer, MemoryBudget& budget);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Role role() const { return role_; }
  const Run* run() const { return run_.get(); }

  void take_fd(UniqueFd fd) { memfd_ = std::move(fd); }
  void feed(std::string_view bytes, Replies& replies);

  // A resume whose run another connection still holds: read nothing more, call retry_resume() until it is
  // over.
  bool waits_for_run() const { return resume_ != nullptr; }
  void retry_resume(Replies& replies, bool last_try);

  // The disk refuses: read nothing more, what is held waits for the next commit_due().
  bool stalled() const { return stalled_until_.has_value(); }
  // There is not enough memory for more of this connection: read nothing more until there is.
  bool must_wait() const { return !share_.may_grow(); }

  // When commit_due() wants to be called, if at all.
  std::optional<Clock::time_point> deadline() const;
  void commit_due(Replies& replies);
  void commit_now(Replies& replies);  // what is whole, due or not

  // What may take long and is owed to nobody: analysis, and finishing a run that has its terminal.
  void work();

  std::optional<ControlRequest> take_control_request() { return std::exchange(control_, std::nullopt); }

  // Who the probe is and what it does, when that changed.
  std::optional<Producer> take_news();
  // The identity of a run that was finished since the last call: its producer may let go of what it held. ""
  // = none.
  std::string take_finished() { return std::exchange(finished_, {}); }

  // The connection is over. Both write what is whole and drop the rest.
  void close_run(const std::string& reason, bool refused = false);  // and finish the run
  std::unique_ptr<Run> release_run();  // and hand it out, null when there is none

 private:
  void take_line(std::string_view line, Replies& replies);
  void first_line(LineKind kind, std::string_view line, Replies& replies);
  void begin_plain(std::string_view line, Replies& replies);
  void begin_probe(std::string_view line, Replies& replies);
  void begin_control(std::string_view line, Replies& replies);
  void introduce(const Hello& hello);
  void take_state(std::string_view line);
  void new_run(RunInfo info, Replies& replies);
  void resume_run(std::unique_ptr<Hello> hello, bool last_try, Replies& replies);
  void attach(std::unique_ptr<Run> run, Replies& replies);

  void producer_line(LineKind kind, std::string_view line, Replies& replies);
  void take_meta(std::string_view line, Replies& replies);
  void take_batch(std::string_view line, Replies& replies);
  void hold(std::string_view line);
  enum class Commit : std::uint8_t { kOngoing, kLast };
  void commit_whole(Replies* replies, Commit commit = Commit::kOngoing);
  void check_quota();
  void drop_tail();
  // `cause` is for the counters, `reason` for people.
  void refuse(const std::string& cause, const std::string& reason, Replies& replies);
  void account();

  Store& store_;
  const Peer& peer_;
  MemoryBudget::Share share_;
  Role role_ = Role::kUnknown;
  UniqueFd memfd_;
  LineBuffer lines_;
  LineGate gate_;

  std::unique_ptr<Run> run_;
  std::unique_ptr<Hello> resume_;   // waits for its run
  std::optional<RingImage> image_;  // of the hello, until it has its run
  std::optional<ControlRequest> control_;
  Producer producer_;
  bool news_ = false;
  std::string finished_;

  std::string held_;                                 // lines that are not committed
  std::size_t whole_ = 0;                            // bytes of it that may be
  std::map<std::uint32_t, format::Cursor> cursors_;  // of the batches among them
  std::uint64_t lines_since_batch_ = 0;
  std::optional<std::uint64_t> seq_;
  bool meta_held_ = false;
  bool terminal_held_ = false;
  bool terminal_whole_ = false;
  bool done_ = false;  // the terminal is written: finish the run
  Clock::time_point first_whole_, last_line_;
  Clock::time_point fed_at_;  // of the bytes at hand: the clock is not asked for each line
  std::optional<Clock::time_point> stalled_until_;
  std::string over_quota_;  // the run is stopped for this reason, which the producer is still to be told
};

}  // namespace tensortap::collector
