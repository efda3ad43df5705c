// When a connection is read, and when its sender has to wait: for its rate, for memory, for the disk.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "collector/connection.h"
#include "collector/limits.h"

namespace tensortap::collector {

using boost::system::error_code;

void Connection::pause(std::chrono::milliseconds how_long) {
  paused_until_ = Clock::now() + how_long;
  arm_timer();
}

// After `received` bytes: may more be taken?
bool Connection::must_pause(std::size_t received) {
  const auto now = Clock::now();
  std::chrono::milliseconds wait = user_->take(received, hub_.store.settings().quota.rate, now);
  if (wait.count() > 0) ++hub_.store.metrics().rate_waits;
  if (!session_.must_wait()) {
    short_of_memory_since_.reset();
  } else {
    if (!short_of_memory_since_) {
      short_of_memory_since_ = now;
      ++hub_.store.metrics().memory_waits;
    }
    wait = std::max(wait, std::chrono::milliseconds(kMemoryRetry));
  }
  if (wait.count() == 0) return false;
  paused_until_ = now + wait;
  return true;
}

// There was too little memory for it, and it holds more than its part: first what it holds is written, then
// it has a moment. A probe that is cut comes back and sends again what was not acknowledged.
void Connection::relieve_memory() {
  if (!short_of_memory_since_) return;
  Replies replies;
  session_.commit_now(replies);
  after_feed(replies);
  if (closing_ || !session_.must_wait()) {
    short_of_memory_since_.reset();
  } else if (Clock::now() - *short_of_memory_since_ > kMemoryPatience) {
    spdlog::warn("process {} of user {}: cut: it holds memory that others need (collectord --max-memory)",
                 peer_.pid, peer_.uid);
    ++hub_.store.metrics().hung_up;
    on_end();
  } else {
    paused_until_ = Clock::now() + kMemoryRetry;
  }
}

void Connection::arm_timer() {
  if (closing_) return;
  std::optional<Clock::time_point> next = first_line_until_;
  const auto sooner = [&](Clock::time_point when) { next = next ? std::min(*next, when) : when; };
  if (const auto deadline = session_.deadline()) sooner(*deadline);
  if (paused_until_) sooner(*paused_until_);
  if (session_.waits_for_run()) sooner(Clock::now() + kTakeOverRetry);
  if (control_) sooner(Clock::now() + kWaitPoll);
  if (!next) return;
  timer_.expires_at(*next);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && !self->closing_) self->guarded([&] { self->on_timer(); });
  });
}

void Connection::on_timer() {
  const auto now = Clock::now();
  if (paused_until_ && now >= *paused_until_) paused_until_.reset();
  if (dying_) {
    if (!paused_until_) on_process_death();
    return closing_ ? void() : arm_timer();
  }
  const WorkGate::Pass pass(hub_.gate);
  if (!pass && session_.run() != nullptr) return pause(kWorkerRetry);
  if (first_line_until_ && now >= *first_line_until_ && !session_.waits_for_run()) return on_end();
  Replies replies;
  if (session_.waits_for_run()) session_.retry_resume(replies, take_over_until_ && now >= *take_over_until_);
  session_.commit_due(replies);
  after_feed(replies);
  if (!closing_ && !paused_until_) relieve_memory();
  if (closing_) return;
  if (control_) answer_control();
  arm_timer();
  wait_readable();
}

}  // namespace tensortap::collector
