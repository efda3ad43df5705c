// The state folder and every run in it: who holds which run, where it lies, how it stands.
//
//   Result<unique_ptr<Store>> store = Store::open(state_folder);     // made, locked, scanned for open runs
//   auto run = (*store)->create(info);                               // a folder with a name of our making
//   (*store)->park(std::move(run));                                  // its connection ended: may be resumed
//   Claim claim = (*store)->claim("71-8812-5f2c");                   // by a resume, or when the grace is
//   over
//   (*store)->finish(std::move(run), {"process 71 died …"});
//
// A run has one owner at a time: a session, or (parked) the store; whoever claims it first has it.
// Thread rules: all functions may be called from any thread; finish() works outside the lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/run.h"
#include "collector/run_info.h"
#include "collector/unique_fd.h"
#include "format/result.h"

namespace tensortap::collector {

class Store {
 public:
  static format::Result<std::unique_ptr<Store>> open(const std::string& state_folder);

  // Picks the folder and makes it. `info.run` must not be known yet (kRejected).
  format::Result<std::unique_ptr<Run>> create(RunInfo info);
  std::optional<RunInfo> find(std::string_view run) const;

  // Called (from any thread) when somebody else wants the run: its owner should park it soon.
  using Evict = std::function<void()>;
  void set_evict(const std::string& run, Evict evict);

  // The ticket names this parking: a grace watch takes the run only if nobody had it since.
  using Ticket = std::uint64_t;
  Ticket park(std::unique_ptr<Run> run);

  struct Claim {
    enum class State { kClaimed, kUnknown, kClosed, kBusy };
    State state = State::kUnknown;
    std::unique_ptr<Run> run;
  };
  Claim claim(std::string_view run);
  std::unique_ptr<Run> claim_parked(std::string_view run,
                                    Ticket ticket);  // null when it is not there any more
  void evict(std::string_view run);                  // asks the owner of a busy run

  void finish(std::unique_ptr<Run> run, const Ending& ending);

  // The runs that an earlier life of the daemon left open, parked; to be asked once, at the start.
  std::vector<std::pair<RunInfo, Ticket>> left_open() const;

  // Runs of a launch, or all; in the order of their folders' names.
  std::vector<RunInfo> list(std::string_view launch = {}) const;

 private:
  Store(std::string state_folder, UniqueFd lock) : root_(std::move(state_folder)), lock_(std::move(lock)) {}

  struct Entry {
    RunInfo info;
    std::unique_ptr<Run> parked;
    Ticket ticket = 0;
    Evict evict;
  };
  void scan(const std::string& folder);
  std::string place_for(const RunInfo& info, std::uint32_t random) const;

  std::string root_;
  UniqueFd lock_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace tensortap::collector
