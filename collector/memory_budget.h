// How many bytes the connections of a daemon may hold in memory together: lines that are not written yet, and
// answers that are not read.
//
//   MemoryBudget budget(512 << 20);
//   MemoryBudget::Share share(budget);      // of one connection
//   share.set(held.size());
//   if (!share.may_grow()) …;               // read no more from its socket: the sender waits
//
// A share that is within its fair part of the limit may always grow, so one that holds much costs the others
// nothing. Thread rules: the budget from any thread, a share from one at a time.
#pragma once

#include <atomic>
#include <cstddef>

namespace tensortap::collector {

class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit) : limit_(limit) {}

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }

  class Share {
   public:
    explicit Share(MemoryBudget& budget) : budget_(budget) { ++budget_.shares_; }
    ~Share() {
      set(0);
      --budget_.shares_;
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    void set(std::size_t bytes) {
      budget_.used_ += bytes - bytes_;  // wraps around when it became less
      bytes_ = bytes;
    }
    bool may_grow() const {
      return budget_.used_ <= budget_.limit_ || bytes_ <= budget_.limit_ / budget_.shares_;
    }

   private:
    MemoryBudget& budget_;
    std::size_t bytes_ = 0;
  };

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> shares_{0};
};

}  // namespace tensortap::collector
