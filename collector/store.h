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

#include "collector/retention.h"
#include "collector/run.h"
#include "collector/run_info.h"
#include "collector/unique_fd.h"
#include "format/result.h"

namespace tensortap::collector {

class Store {
 public:
  static format::Result<std::unique_ptr<Store>> open(const std::string& state_folder,
                                                     const Settings& settings = {});

  const Settings& settings() const { return settings_; }
  Metrics& metrics() { return metrics_; }
  std::shared_ptr<UserAccount> account(std::uint64_t uid) { return accounts_.of(uid); }

  // Why nothing more of this user may be stored; "" when it may.
  std::string quota_fault(std::uint64_t uid);

  // Picks the folder and makes it. `info.run` must not be known yet (kRejected); a quota that is used up:
  // kRejected, with the quota's name.
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

  // Runs of a launch, or all, of one user or all; in the order of their folders' names.
  std::vector<RunInfo> list(std::string_view launch = {}, std::optional<std::uint64_t> uid = {}) const;

  // To be called now and then: removes what the retention lets go of, and writes again what a full disk did
  // not take.
  void look_after_runs();

 private:
  Store(std::string state_folder, UniqueFd lock, const Settings& settings)
      : settings_(settings), root_(std::move(state_folder)), lock_(std::move(lock)) {}

  struct Entry {
    RunInfo info;
    std::unique_ptr<Run> parked;
    Ticket ticket = 0;
    Evict evict;
    std::uint64_t bytes = 0;  // of its trace file, once it is finished
    bool unsaved = false;     // its run.json does not say yet how it ended
  };
  void scan(const std::string& folder);
  RunSurroundings surroundings(std::uint64_t uid);
  std::string runs_fault(std::uint64_t uid);
  std::vector<KeptRun> kept_runs() const;
  void enforce_retention();
  bool remove(const std::string& run);
  std::string place_for(const RunInfo& info, std::uint32_t random) const;

  const Settings settings_;
  Metrics metrics_;
  UserAccounts accounts_;
  std::string root_;
  UniqueFd lock_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace tensortap::collector
