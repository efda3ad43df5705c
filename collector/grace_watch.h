// Waits for a run whose connection is gone: until it is resumed, its process dies, or its time is over; then
// finishes it.
//
//   GraceWatch::start(hub, run_info, ticket, open_same_process(pid, start_time), kResumeGrace,
//   GraceWatch::Cause::kHungUp);
//
// Thread rules: works on a strand of its own. Ownership: keeps itself alive until it is done.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>

#include "collector/hub.h"

namespace tensortap::collector {

class GraceWatch : public Stoppable, public std::enable_shared_from_this<GraceWatch> {
 public:
  enum class Cause { kHungUp, kRestart };

  // An empty pidfd: the process is known to be dead. `exe`: what it ran when it was last heard of.
  static void start(Hub& hub, const RunInfo& info, Store::Ticket ticket, UniqueFd pidfd,
                    std::chrono::milliseconds grace, Cause cause);

  void stop() override;

 private:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  GraceWatch(Hub& hub, const RunInfo& info, Store::Ticket ticket, UniqueFd pidfd, Cause cause);
  void begin(std::chrono::milliseconds grace);
  void on_death();
  void finish();
  bool is_dead() const;

  Hub& hub_;
  Strand strand_;
  boost::asio::steady_timer timer_;
  boost::asio::posix::stream_descriptor pidfd_;
  RunInfo info_;
  Store::Ticket ticket_;
  Cause cause_;
  bool done_ = false;
};

// What is known about how a producer ended that did not close its run. The exit status is its parent's to
// know.
std::string ending_reason(const RunInfo& info, bool dead);

}  // namespace tensortap::collector
