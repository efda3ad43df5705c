#include "collector/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "collector/naming.h"

namespace tensortap::collector {

using format::Error;
using format::ErrorCode;
using format::Result;

namespace {

constexpr std::size_t kMaxFolderBytes = 2048;  // workers of workers: far below PATH_MAX
constexpr int kNameTries = 16;

Error bad_state(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument,
               "cannot use the state folder " + path + ": " + what + "; choose another with --state DIR"};
}

// Folders of the daemon are its owner's alone.
std::string make_private_folders(const std::string& path) {
  std::error_code error;
  const mode_t before = ::umask(077);
  std::filesystem::create_directories(path, error);
  ::umask(before);
  return error ? error.message() : std::string();
}

Result<UniqueFd> lock_state(const std::string& root) {
  const std::string path = root + "/collectord.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return bad_state(root, std::string("it cannot be written (") + std::strerror(errno) + ")");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t got = ::pread(fd.get(), holder, sizeof holder - 1, 0);
    const std::string pid = got > 0 ? " (pid " + std::string(holder, ::strcspn(holder, "\n")) + ")" : "";
    return Error{ErrorCode::kRejected, "the state folder " + root + " is in use by another collectord" + pid +
                                           "; stop that one, or choose another folder with --state DIR"};
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
    spdlog::warn("{}: {}", path, std::strerror(errno));  // a full disk: the lock itself holds
  }
  return fd;
}

std::uint64_t trace_bytes(const std::string& folder) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(folder + "/trace.jsonl.zst", error);
  return error ? 0 : static_cast<std::uint64_t>(bytes);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& state_folder, const Settings& settings) {
  std::error_code error;
  const std::string root = std::filesystem::absolute(state_folder, error).lexically_normal().string();
  if (error) return bad_state(state_folder, error.message());
  if (const std::string fault = make_private_folders(root + "/runs"); !fault.empty()) {
    return bad_state(root, "it cannot be made (" + fault + ")");
  }
  if (::access((root + "/runs").c_str(), W_OK | X_OK) != 0) {
    return bad_state(root, std::string("it cannot be written (") + std::strerror(errno) + ")");
  }
  // Others may pass through to what is theirs, and see no names.
  const mode_t mode = settings.other_users ? 0711 : 0700;
  for (const std::string& folder : {root, root + "/runs"}) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0 && status.st_uid == ::geteuid()) ::chmod(folder.c_str(), mode);
  }
  auto lock = lock_state(root);
  if (!lock) return lock.error();
  std::unique_ptr<Store> store(new Store(root, std::move(*lock), settings));
  store->scan(root + "/runs");
  return store;
}

void Store::scan(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored) || it->is_symlink(ignored)) continue;
    const std::string path = it->path().string();
    auto info = read_run_json(path);
    if (!info) {
      spdlog::warn("left alone: {}", info.error().to_string());
      continue;
    }
    Entry entry;
    entry.info = *info;
    if (info->state == RunState::kOpen) {
      entry.parked = Run::adopt(*info, surroundings(info->uid));
      ++account(info->uid)->open_runs;
    } else {
      entry.bytes = trace_bytes(path);
      account(info->uid)->stored_bytes += entry.bytes;
    }
    entries_.insert_or_assign(info->run, std::move(entry));
    if (it->path().string().size() < kMaxFolderBytes) scan(path + "/workers");
  }
}

RunSurroundings Store::surroundings(std::uint64_t uid) { return {settings_, metrics_, accounts_.of(uid)}; }

std::string Store::quota_fault(std::uint64_t uid) {
  const std::uint64_t limit = settings_.quota.bytes;
  if (limit == 0) return {};
  const std::uint64_t stored = accounts_.of(uid)->stored_bytes;
  if (stored < limit) return {};
  return "the quota of user " + std::to_string(uid) + " is used up: " + std::to_string(stored) +
         " bytes of traces are kept of " + std::to_string(limit) + " (collectord --quota-bytes)";
}

std::string Store::runs_fault(std::uint64_t uid) {
  const std::uint64_t limit = settings_.quota.runs;
  if (limit == 0 || accounts_.of(uid)->open_runs < limit) return {};
  return "user " + std::to_string(uid) + " has " + std::to_string(limit) +
         " open runs already, which is the quota (collectord --quota-runs)";
}

std::string Store::place_for(const RunInfo& info, std::uint32_t random) const {
  const std::string name =
      folder_name(std::time(nullptr), display_name(info.exe, info.command), info.pid, random);
  const auto parent = info.parent_run.empty() ? entries_.end() : entries_.find(info.parent_run);
  if (parent != entries_.end() && parent->second.info.uid == info.uid &&
      parent->second.info.folder.size() < kMaxFolderBytes) {
    return parent->second.info.folder + "/workers/" + name;
  }
  return root_ + "/runs/" + name;
}

Result<std::unique_ptr<Run>> Store::create(RunInfo info) {
  const std::shared_ptr<UserAccount> user = accounts_.of(info.uid);
  for (const auto& [name, fault] :
       {std::pair{"quota_runs", runs_fault(info.uid)}, std::pair{"quota_bytes", quota_fault(info.uid)}}) {
    if (fault.empty()) continue;
    Error error{ErrorCode::kRejected, fault};
    error.name = name;
    return error;
  }
  {
    const std::lock_guard guard(mutex_);
    if (entries_.count(info.run) != 0) {
      return Error{ErrorCode::kRejected, "the run " + info.run + " is known already"};
    }
    for (int i = 0; i < kNameTries; ++i) {
      info.folder = place_for(info, random_u32());
      if (::access(info.folder.c_str(), F_OK) != 0) break;
    }
    info.started = utc_now();
    entries_[info.run].info = info;
    ++user->open_runs;
  }
  auto run = Run::create(info, surroundings(info.uid));
  if (!run) {
    --user->open_runs;
    const std::lock_guard guard(mutex_);
    entries_.erase(info.run);
    return run.error();
  }
  ++metrics_.runs_begun;
  spdlog::info("run {}: begins, {}", info.run, info.folder);
  return run;
}

std::optional<RunInfo> Store::find(std::string_view run) const {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(run);
  if (entry == entries_.end()) return std::nullopt;
  return entry->second.info;
}

void Store::set_evict(const std::string& run, Evict evict) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(run);
  if (entry != entries_.end()) entry->second.evict = std::move(evict);
}

Store::Ticket Store::park(std::unique_ptr<Run> run) {
  run->suspend();
  const std::lock_guard guard(mutex_);
  Entry& entry = entries_[run->info().run];
  entry.evict = nullptr;
  entry.parked = std::move(run);
  return ++entry.ticket;
}

std::unique_ptr<Run> Store::claim_parked(std::string_view run, Ticket ticket) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(run);
  if (entry == entries_.end() || entry->second.ticket != ticket) return nullptr;
  return std::move(entry->second.parked);
}

Store::Claim Store::claim(std::string_view run) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(run);
  if (entry == entries_.end()) return {};
  if (entry->second.info.state != RunState::kOpen) return {Claim::State::kClosed, nullptr};
  if (!entry->second.parked) return {Claim::State::kBusy, nullptr};
  return {Claim::State::kClaimed, std::move(entry->second.parked)};
}

void Store::evict(std::string_view run) {
  Evict evict;
  {
    const std::lock_guard guard(mutex_);
    const auto entry = entries_.find(run);
    if (entry != entries_.end()) evict = entry->second.evict;
  }
  if (evict) evict();
}

void Store::finish(std::unique_ptr<Run> run, const Ending& ending) {
  run->finish(ending);
  const RunInfo& info = run->info();
  spdlog::info("run {}: {}{}{}, {}", info.run, run_state_name(info.state), info.reason.empty() ? "" : ": ",
               info.reason, info.folder);
  --accounts_.of(info.uid)->open_runs;
  ++(info.state == RunState::kComplete ? metrics_.runs_complete : metrics_.runs_failed);
  metrics_.add_ledger(info.ledger);
  const std::uint64_t bytes = trace_bytes(info.folder);
  accounts_.of(info.uid)->stored_bytes += bytes - run->accounted_bytes();
  {
    const std::lock_guard guard(mutex_);
    Entry& entry = entries_[info.run];
    entry.info = info;
    entry.evict = nullptr;
    entry.bytes = bytes;
    entry.unsaved = !run->saved();
  }
  enforce_retention();
}

// Top-level runs with the workers that lie in their folders.
std::vector<KeptRun> Store::kept_runs() const {
  const std::lock_guard guard(mutex_);
  std::map<std::string, KeptRun> by_folder;
  const std::string runs = root_ + "/runs/";
  for (const auto& [name, entry] : entries_) {
    const RunInfo& info = entry.info;
    KeptRun& kept = by_folder[info.folder.substr(0, info.folder.find('/', runs.size()))];
    if (info.folder.find('/', runs.size()) == std::string::npos) kept.run = name;
    kept.bytes += info.state == RunState::kOpen ? trace_bytes(info.folder) : entry.bytes;
    kept.open = kept.open || info.state == RunState::kOpen;
    kept.ended = std::max(kept.ended, parse_utc(info.ended));
  }
  std::vector<KeptRun> all;
  for (auto& [folder, kept] : by_folder) {
    if (!kept.run.empty()) all.push_back(std::move(kept));
  }
  return all;
}

void Store::look_after_runs() {
  std::vector<RunInfo> unsaved;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry.unsaved) unsaved.push_back(entry.info);
    }
  }
  for (const RunInfo& info : unsaved) {
    if (!write_run_json(info)) continue;
    const std::lock_guard guard(mutex_);
    if (const auto entry = entries_.find(info.run); entry != entries_.end()) entry->second.unsaved = false;
  }
  enforce_retention();
}

void Store::enforce_retention() {
  const Retention& retention = settings_.retention;
  if (retention.keep.count() == 0 && retention.max_bytes == 0) return;
  for (const std::string& run : runs_to_remove(kept_runs(), retention, std::time(nullptr))) remove(run);
}

// With its workers. Their names are free before their folders are, so nothing can be added to them.
bool Store::remove(const std::string& run) {
  std::string folder;
  std::uint64_t bytes = 0, count = 0;
  {
    const std::lock_guard guard(mutex_);
    const auto top = entries_.find(run);
    if (top == entries_.end()) return false;
    folder = top->second.info.folder;
    const auto is_inside = [&](const Entry& entry) {
      return entry.info.folder == folder || entry.info.folder.rfind(folder + "/", 0) == 0;
    };
    for (const auto& [name, entry] : entries_) {
      if (is_inside(entry) && entry.info.state == RunState::kOpen) return false;  // since the decision
    }
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (!is_inside(entry->second)) {
        ++entry;
        continue;
      }
      bytes += entry->second.bytes;
      ++count;
      accounts_.of(entry->second.info.uid)->stored_bytes -= entry->second.bytes;
      entry = entries_.erase(entry);
    }
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  metrics_.runs_removed += count;
  metrics_.bytes_removed += bytes;
  spdlog::info("run {}: removed by the retention, {} bytes, {}{}", run, bytes, folder,
               error ? ": " + error.message() : "");
  return true;
}

std::vector<RunInfo> Store::list(std::string_view launch, std::optional<std::uint64_t> uid) const {
  std::vector<RunInfo> runs;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (uid && entry.info.uid != *uid) continue;
      if (launch.empty() || entry.info.launch == launch) runs.push_back(entry.info);
    }
  }
  std::sort(runs.begin(), runs.end(), [](const RunInfo& a, const RunInfo& b) { return a.folder < b.folder; });
  return runs;
}

std::vector<std::pair<RunInfo, Store::Ticket>> Store::left_open() const {
  const std::lock_guard guard(mutex_);
  std::vector<std::pair<RunInfo, Ticket>> runs;
  for (const auto& [name, entry] : entries_) {
    if (entry.parked) runs.emplace_back(entry.info, entry.ticket);
  }
  return runs;
}

}  // namespace tensortap::collector
