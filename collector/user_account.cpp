#include "collector/user_account.h"

#include <algorithm>

namespace tensortap::collector {

std::chrono::milliseconds UserAccount::take(std::uint64_t bytes, std::uint64_t rate, Clock::time_point now) {
  if (rate == 0) return std::chrono::milliseconds(0);
  const auto per_second = static_cast<double>(rate);
  const std::lock_guard guard(mutex_);
  if (last_ == Clock::time_point()) left_ = per_second;
  const std::chrono::duration<double> passed = now - last_;
  left_ = last_ == Clock::time_point()
              ? per_second
              : std::min(per_second, left_ + std::max(0.0, passed.count()) * per_second);
  last_ = std::max(now, last_);
  left_ -= static_cast<double>(bytes);
  if (left_ >= 0) return std::chrono::milliseconds(0);
  return std::chrono::milliseconds(1 + static_cast<std::int64_t>(-left_ / per_second * 1000));
}

std::shared_ptr<UserAccount> UserAccounts::of(std::uint64_t uid) {
  const std::lock_guard guard(mutex_);
  std::shared_ptr<UserAccount>& account = accounts_[uid];
  if (!account) account = std::make_shared<UserAccount>();
  return account;
}

}  // namespace tensortap::collector
