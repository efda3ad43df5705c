#include "collector/grace_watch.h"

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include <exception>

#include "collector/limits.h"

namespace tensortap::collector {

namespace asio = boost::asio;

std::string ending_reason(const RunInfo& info, bool dead) {
  const std::string process = "process " + std::to_string(info.pid);
  if (dead) return process + " died without closing its run";
  const std::string exe = process_exe(info.pid);
  if (!exe.empty() && !info.exe.empty() && exe != info.exe) {
    return process + " became another program by exec (" + exe + ") without closing its run";
  }
  return process + " closed its connection without closing its run, and did not come back";
}

GraceWatch::GraceWatch(Hub& hub, const RunInfo& info, Store::Ticket ticket, UniqueFd pidfd, Cause cause)
    : hub_(hub),
      strand_(hub.io.get_executor()),
      timer_(strand_),
      pidfd_(strand_),
      info_(info),
      ticket_(ticket),
      cause_(cause) {
  if (pidfd) pidfd_.assign(pidfd.release());
}

void GraceWatch::start(Hub& hub, const RunInfo& info, Store::Ticket ticket, UniqueFd pidfd,
                       std::chrono::milliseconds grace, Cause cause) {
  std::shared_ptr<GraceWatch> watch(new GraceWatch(hub, info, ticket, std::move(pidfd), cause));
  if (!hub.roster.add(watch)) return;  // stopping: the run stays open
  asio::post(watch->strand_, [watch, grace] { watch->begin(grace); });
}

bool GraceWatch::is_dead() const {
  // Without a descriptor: known to be dead, or never visible from here; then only time can tell.
  return pidfd_.is_open() &&
         pidfd_is_dead(const_cast<asio::posix::stream_descriptor&>(pidfd_).native_handle());
}

void GraceWatch::begin(std::chrono::milliseconds grace) {
  const auto self = shared_from_this();
  timer_.expires_after(grace);
  timer_.async_wait([self](const boost::system::error_code& error) {
    if (!error) self->finish();
  });
  if (!pidfd_.is_open()) return;
  pidfd_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self](const boost::system::error_code& error) {
                      if (!error) self->on_death();
                    });
}

// With the rings at hand there is nothing to wait for. Without them (this daemon was started anew) the
// process may have handed them over with its last breath: that hello is heard first.
void GraceWatch::on_death() {
  if (cause_ == Cause::kHungUp) return finish();
  timer_.expires_after(kLateHello);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->finish();
  });
}

void GraceWatch::finish() try {
  if (done_) return;
  const WorkGate::Pass pass(hub_.gate);
  if (!pass) {
    timer_.expires_after(kWorkerRetry);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->finish();
    });
    return;
  }
  done_ = true;
  const bool dead = is_dead() || (cause_ == Cause::kRestart && !pidfd_.is_open());
  timer_.cancel();
  if (pidfd_.is_open()) pidfd_.close();
  auto run = hub_.store.claim_parked(info_.run, ticket_);
  if (!run) return;  // resumed
  Ending ending{ending_reason(run->info(), dead), !run->has_image()};
  if (cause_ == Cause::kRestart) {
    ending.reason += dead ? " while the collector was down" : " after the collector had been started anew";
  }
  hub_.store.finish(std::move(run), ending);
} catch (const std::exception& fault) {
  spdlog::error("run {}: {}", info_.run, fault.what());
}

void GraceWatch::stop() {
  const auto self = shared_from_this();
  asio::post(strand_, [self] {
    // A dead producer's rings are lost with this process: now or never.
    if (self->cause_ == Cause::kHungUp && self->is_dead()) return self->finish();
    self->done_ = true;
    self->timer_.cancel();
    if (self->pidfd_.is_open()) self->pidfd_.close();
  });
}

}  // namespace tensortap::collector
