// The daemon: accepts, gives every connection its strand, takes care of runs that were left open, stops in
// order.
//
//   Daemon::hold_stop_signals();      // before anybody can see that we listen
//   Daemon daemon(std::move(store), std::move(listener));
//   daemon.run();                     // until SIGTERM or SIGINT
//
// Thread rules: run() blocks, and works with a few threads of its own.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "collector/hub.h"
#include "collector/listener.h"
#include "collector/store.h"

namespace tensortap::collector {

class Daemon {
 public:
  // A SIGTERM or SIGINT that comes from now on waits for `run`: the socket can be connected to before
  // anything runs, and a stop in that moment must be an orderly one.
  static void hold_stop_signals();

  Daemon(std::unique_ptr<Store> store, Listener listener);
  void run();

 private:
  void accept();
  void watch_open_runs();
  void look_after_runs();
  void stop();

  // Before the io_context: connections that are pending when it goes still use them.
  std::unique_ptr<Store> store_;
  Listener listener_;
  Hub hub_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer retry_;
  boost::asio::steady_timer upkeep_;
  bool stopping_ = false;  // of the upkeep, on its strand
};

}  // namespace tensortap::collector
