#include "format/parallel_reader.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "format/line_reader.h"

namespace tensortap::format {
namespace {

// The batches in a ring: number n lies in slot n modulo the slots. A worker takes a number together with its
// lines, so that numbers are in the order of the lines.
class Pipeline {
 public:
  Pipeline(unsigned threads, const std::function<std::string_view()>& next_lines)
      : next_lines_(next_lines), slots_(threads + 2) {
    try {
      for (unsigned i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system gives fewer threads, or none
    }
  }
  ~Pipeline() { stop(); }

  bool has_workers() const { return !workers_.empty(); }

  // The next batch in order, null at the end; the one before is given back.
  const EventBatch* next() {
    std::unique_lock lock(mutex_);
    if (shown_ > 0) slots_[(shown_ - 1) % slots_.size()].is_parsed = false;
    ++given_back_;
    room_.notify_one();
    parsed_.wait(lock, [this] { return failure_ || slot(shown_).is_parsed || (ended_ && shown_ == taken_); });
    if (failure_) std::rethrow_exception(failure_);
    if (!slot(shown_).is_parsed) return nullptr;
    return &slot(shown_++).batch;
  }

 private:
  struct Slot {
    EventBatch batch;
    bool is_parsed = false;
  };
  Slot& slot(std::uint64_t number) { return slots_[number % slots_.size()]; }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  void work() {
    try {
      LineReader reader;
      while (Slot* mine = take_lines()) {
        mine->batch.read(reader);
        const std::lock_guard lock(mutex_);
        mine->is_parsed = true;
        parsed_.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      ended_ = true;
      parsed_.notify_one();
    }
  }

  // Null: there are no more, or nobody wants them.
  Slot* take_lines() {
    const std::lock_guard input(input_mutex_);
    std::unique_lock lock(mutex_);
    // `shown_` may still be looked at: its slot is free when the next one is asked for.
    room_.wait(lock, [this] { return stopped_ || ended_ || taken_ + 1 < given_back_ + slots_.size(); });
    if (stopped_ || ended_) return nullptr;
    Slot& mine = slot(taken_);
    lock.unlock();
    const std::string_view lines = next_lines_();
    mine.batch.set_lines(lines);
    lock.lock();
    if (!lines.empty()) {
      ++taken_;
      return &mine;
    }
    ended_ = true;
    parsed_.notify_one();
    return nullptr;
  }

  const std::function<std::string_view()>& next_lines_;
  std::mutex input_mutex_;  // taken before mutex_
  std::mutex mutex_;
  std::condition_variable room_, parsed_;
  std::vector<Slot> slots_;
  std::uint64_t taken_ = 0, shown_ = 0, given_back_ = 0;
  bool ended_ = false, stopped_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> workers_;
};

}  // namespace

bool read_in_parallel(unsigned threads, const std::function<std::string_view()>& next_lines,
                      const std::function<void(const EventBatch&)>& take) {
  Pipeline pipeline(threads, next_lines);
  if (!pipeline.has_workers()) return false;
  while (const EventBatch* batch = pipeline.next()) take(*batch);
  return true;
}

}  // namespace tensortap::format
