#include "collector/daemon.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "collector/connection.h"
#include "collector/grace_watch.h"
#include "collector/limits.h"

namespace tensortap::collector {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr unsigned kMinThreads = 4, kMaxThreads = 10;   // they wait for the disk more than they compute
constexpr std::chrono::milliseconds kAcceptRetry{100};  // out of descriptors: wait for some to be closed

void work_until_done(asio::io_context& io) {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& fault) {
      spdlog::error("internal error: {}", fault.what());
    }
  }
}

void mask_stop_signals(int how) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::pthread_sigmask(how, &set, nullptr);
}

// A probe's connection holds five descriptors; the soft limit is often 1024, for the sake of programs that
// use select().
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) spdlog::debug("the limit of open files stays as it is");
}

}  // namespace

void Daemon::hold_stop_signals() { mask_stop_signals(SIG_BLOCK); }

Daemon::Daemon(std::unique_ptr<Store> store, Listener listener)
    : store_(std::move(store)),
      listener_(std::move(listener)),
      hub_(*store_),
      acceptor_(asio::make_strand(hub_.io)),
      signals_(hub_.io),
      retry_(acceptor_.get_executor()),
      upkeep_(asio::make_strand(hub_.io)) {  // its own: removing folders takes time
  acceptor_.assign(asio::local::stream_protocol(), listener_.release_fd());
}

void Daemon::run() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is a disk that refuses
  raise_descriptor_limit();
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  mask_stop_signals(SIG_UNBLOCK);
  signals_.async_wait([this](const error_code& error, int number) {
    if (error) return;
    spdlog::info("signal {}: stopping", number);
    asio::post(acceptor_.get_executor(), [this] { stop(); });
  });
  const unsigned count = std::clamp(std::thread::hardware_concurrency() + 2, kMinThreads, kMaxThreads);
  hub_.gate.places = static_cast<int>(count) - 1;
  watch_open_runs();
  accept();
  asio::post(upkeep_.get_executor(), [this] { look_after_runs(); });
  spdlog::info("listening on {}", listener_.path());
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < count; ++i) threads.emplace_back([this] { work_until_done(hub_.io); });
  work_until_done(hub_.io);
  for (std::thread& thread : threads) thread.join();
}

void Daemon::accept() {
  acceptor_.async_accept(asio::make_strand(hub_.io),
                         [this](const error_code& error, Connection::Socket socket) {
                           if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
                           if (!error) {
                             Connection::start(hub_, std::move(socket));
                             return accept();
                           }
                           spdlog::error("cannot accept a connection: {}", error.message());
                           retry_.expires_after(kAcceptRetry);
                           retry_.async_wait([this](const error_code& cancelled) {
                             if (!cancelled) accept();
                           });
                         });
}

void Daemon::watch_open_runs() {
  for (const auto& [info, ticket] : store_->left_open()) {
    UniqueFd pidfd = info.probe ? open_same_process(info.pid, info.start_time) : UniqueFd();
    // A plain producer cannot come back: its lines have no positions.
    const auto grace = pidfd ? std::chrono::milliseconds(kRestartGrace) : kLateHello;
    spdlog::info("run {}: left open by an earlier collector{}", info.run, pidfd ? ", its process lives" : "");
    GraceWatch::start(hub_, info, ticket, std::move(pidfd), grace, GraceWatch::Cause::kRestart);
  }
}

void Daemon::look_after_runs() {
  if (stopping_) return;
  store_->look_after_runs();
  upkeep_.expires_after(kUpkeepInterval);
  upkeep_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) look_after_runs();
  });
}

void Daemon::stop() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  asio::post(upkeep_.get_executor(), [this] {
    stopping_ = true;
    upkeep_.cancel();
  });
  hub_.roster.stop_all();
}

}  // namespace tensortap::collector
