// A flag that is held for a moment, by threads of the job and of ours: nobody waits long for it. Not held
// (false) when another one does not let go: then the caller leaves out what it wanted.
//
//   BriefFlag flag(g_flag);
//   if (!flag) return;
#pragma once

#include <sched.h>

#include <atomic>

namespace tensortap::probe {

class BriefFlag {
 public:
  explicit BriefFlag(std::atomic_flag& flag) noexcept : flag_(flag) {
    for (int turn = 0; turn < 1000 && !held_; ++turn) {
      held_ = !flag_.test_and_set(std::memory_order_acquire);
      if (!held_ && turn > 50) sched_yield();
    }
  }
  ~BriefFlag() {
    if (held_) flag_.clear(std::memory_order_release);
  }
  BriefFlag(const BriefFlag&) = delete;
  BriefFlag& operator=(const BriefFlag&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  std::atomic_flag& flag_;
  bool held_ = false;
};

}  // namespace tensortap::probe
