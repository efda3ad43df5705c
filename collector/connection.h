// One connection's socket, timers and process watch around a Session.
//
//   Connection::start(hub, std::move(socket));       // lives until both sides are done
//
// Thread rules: works on the strand of its socket. Ownership: keeps itself alive while an operation is
// pending.
#pragma once

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/hub.h"
#include "collector/session.h"

namespace tensortap::collector {

class Connection : public Stoppable, public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::local::stream_protocol, Strand>;

  static void start(Hub& hub, Socket socket);
  ~Connection() override;
  void stop() override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Received { kBytes, kNothing, kEnd };

  Connection(Hub& hub, Socket socket);
  void begin();
  template <class Body>
  void guarded(Body&& body);

  // The daemon's own user and root see and order everything, others what is theirs.
  bool sees_all() const;
  void refuse(const std::string& cause, const std::string& reason);
  void wait_readable();
  void on_readable();
  Received receive();
  void after_feed(Replies& replies);
  void identify();
  void announce_run();
  void announce_producer();
  void watch_process();
  void on_process_death();
  void on_end();
  void hand_over_run();

  // Pauses the reading: the sender waits, and everybody else has the memory, the disk, the threads.
  void pause(std::chrono::milliseconds how_long);
  bool must_pause(std::size_t received);
  void relieve_memory();

  void arm_timer();
  void on_timer();
  std::vector<Producer> addressed(const ControlRequest& request) const;
  void answer_control();

  void send(const std::string& text);
  void write_more();
  void close_after_writing();
  void shut();

  Hub& hub_;
  Socket socket_;
  Peer peer_;
  Session session_;
  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand> timer_;
  boost::asio::posix::basic_stream_descriptor<Strand> process_;
  std::shared_ptr<UserAccount> user_;
  std::string sending_, to_send_;
  std::uint64_t arrival_ = 0;
  Producers::Ticket producer_ = 0;
  std::string announced_run_;
  bool identified_ = false;
  bool reading_ = false;
  bool closing_ = false;  // no more input
  bool shut_ = false;
  std::optional<Clock::time_point> first_line_until_, take_over_until_;
  std::optional<Clock::time_point> paused_until_;
  std::optional<Clock::time_point> short_of_memory_since_;
  bool dying_ = false;  // its process is dead, the rest waits for a thread
  std::optional<ControlRequest> control_;
  Clock::time_point control_until_;
};

// A fault of ours (no memory) costs this connection, not the daemon.
template <class Body>
void Connection::guarded(Body&& body) {
  try {
    body();
  } catch (const std::exception& fault) {
    spdlog::error("process {}: connection given up: {}", peer_.pid, fault.what());
    shut();
  }
}

}  // namespace tensortap::collector
