#include "collector/hub.h"

#include <algorithm>

namespace tensortap::collector {

bool Roster::add(const std::shared_ptr<Stoppable>& member) {
  const std::lock_guard guard(mutex_);
  if (stopping_) return false;
  members_.erase(
      std::remove_if(members_.begin(), members_.end(), [](const auto& weak) { return weak.expired(); }),
      members_.end());
  members_.push_back(member);
  return true;
}

void Roster::stop_all() {
  std::vector<std::weak_ptr<Stoppable>> members;
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    members.swap(members_);
  }
  for (const auto& weak : members) {
    if (const auto member = weak.lock()) member->stop();
  }
}

std::size_t Roster::size() const {
  const std::lock_guard guard(mutex_);
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(), [](const auto& weak) { return !weak.expired(); }));
}

std::uint64_t Arrivals::arrive(UniqueFd pidfd) {
  const std::lock_guard guard(mutex_);
  waiting_.emplace(next_, std::move(pidfd));
  return next_++;
}

void Arrivals::identified(std::uint64_t ticket) {
  const std::lock_guard guard(mutex_);
  waiting_.erase(ticket);
}

bool Arrivals::dead_before(std::uint64_t ticket) const {
  const std::lock_guard guard(mutex_);
  for (const auto& [number, pidfd] : waiting_) {
    if (number >= ticket) break;
    if (pidfd && pidfd_is_dead(pidfd.get())) return true;
  }
  return false;
}

bool launch_is_settled(const Store& store, std::string_view launch, std::optional<std::uint64_t> uid) {
  for (const RunInfo& info : store.list(launch, uid)) {
    if (info.state != RunState::kOpen || info.start_time == 0) continue;
    if (!open_same_process(info.pid, info.start_time)) return false;
  }
  return true;
}

}  // namespace tensortap::collector
