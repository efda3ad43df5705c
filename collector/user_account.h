// What each user has of the daemon at this moment, and how fast it may send.
//
//   UserAccounts accounts;
//   std::shared_ptr<UserAccount> account = accounts.of(peer.uid);
//   account->stored_bytes += frame.size();
//   milliseconds wait = account->take(got, quota.rate, now);     // 0: go on; else read nothing for so long
//
// Thread rules: any thread. There is one account for each uid that has connections or kept runs: who connects
// is bounded by the socket's permissions, so nothing here grows with what is sent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace tensortap::collector {

class UserAccount {
 public:
  using Clock = std::chrono::steady_clock;

  std::atomic<std::uint64_t> stored_bytes{0};
  std::atomic<std::uint64_t> open_runs{0};
  std::atomic<std::uint64_t> connections{0};

  // Takes `bytes` of a bucket that fills with `rate` bytes a second and holds one second's; it may go into
  // debt, which must be waited for.
  std::chrono::milliseconds take(std::uint64_t bytes, std::uint64_t rate, Clock::time_point now);

 private:
  std::mutex mutex_;
  double left_ = 0;
  Clock::time_point last_{};
};

class UserAccounts {
 public:
  std::shared_ptr<UserAccount> of(std::uint64_t uid);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<UserAccount>> accounts_;
};

}  // namespace tensortap::collector
