#include "collector/connection.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstring>
#include <exception>

#include "collector/grace_watch.h"
#include "collector/limits.h"

namespace tensortap::collector {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr int kReadsPerWake = 8;     // then the others have their turn
constexpr int kReadsAtDeath = 1024;  // to empty a socket that a forked child may still hold
constexpr int kMaxDescriptors = 4;   // in one message; more are the kernel's to close

}  // namespace

void Connection::start(Hub& hub, Socket socket) {
  std::shared_ptr<Connection> connection(new Connection(hub, std::move(socket)));
  if (!hub.roster.add(connection)) return;
  asio::post(connection->socket_.get_executor(),
             [connection] { connection->guarded([&] { connection->begin(); }); });
}

Connection::Connection(Hub& hub, Socket socket)
    : hub_(hub),
      socket_(std::move(socket)),
      peer_(identify_peer(socket_.native_handle())),
      session_(hub.store, peer_, hub.budget),
      timer_(socket_.get_executor()),
      process_(socket_.get_executor()),
      user_(hub.store.account(peer_.uid)) {
  ++hub_.connections;
  ++user_->connections;
  ++hub_.store.metrics().connections_accepted;
  // Here, in the order of accept, not later in the order of strands.
  arrival_ = hub_.arrivals.arrive(peer_.pidfd ? UniqueFd(::fcntl(peer_.pidfd.get(), F_DUPFD_CLOEXEC, 0))
                                              : UniqueFd());
}

Connection::~Connection() {
  hub_.producers.remove(producer_);
  hub_.arrivals.identified(arrival_);
  --user_->connections;
  --hub_.connections;
}

void Connection::begin() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  const Settings& settings = hub_.store.settings();
  const std::uint64_t most_of_user = settings.quota.connections;
  if (!sees_all() && !settings.other_users) {
    return refuse("other_user", "this collector serves its own user only");
  }
  if (hub_.connections > settings.max_connections) {
    return refuse("connections", "the collector has too many connections (collectord --max-connections)");
  }
  if (most_of_user != 0 && user_->connections > most_of_user) {
    return refuse("quota_connections", "user " + std::to_string(peer_.uid) + " has " +
                                           std::to_string(most_of_user) +
                                           " connections already, which is the quota (collectord "
                                           "--quota-connections)");
  }
  first_line_until_ = Clock::now() + kFirstLineTimeout;
  arm_timer();
  wait_readable();
}

bool Connection::sees_all() const { return peer_.uid == ::getuid() || peer_.uid == 0; }

void Connection::refuse(const std::string& cause, const std::string& reason) {
  hub_.store.metrics().count_refusal(cause);
  spdlog::warn("process {} of user {}: refused: {}", peer_.pid, peer_.uid, reason);
  send(boost::json::serialize(boost::json::object{{"kind", "refused"}, {"reason", reason}}) + "\n");
  close_after_writing();
}

void Connection::wait_readable() {
  if (closing_ || reading_ || paused_until_ || session_.waits_for_run() || session_.stalled()) return;
  reading_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->reading_ = false;
    if (!error && !self->closing_) self->guarded([&] { self->on_readable(); });
  });
}

void Connection::on_readable() {
  const WorkGate::Pass pass(hub_.gate);
  if (!pass && session_.role() != Session::Role::kUnknown && session_.role() != Session::Role::kControl) {
    return pause(kWorkerRetry);
  }
  for (int i = 0; i < kReadsPerWake && !closing_ && !session_.waits_for_run(); ++i) {
    const Received received = receive();
    if (received == Received::kEnd) return on_end();
    if (received == Received::kNothing || session_.stalled() || paused_until_) break;
  }
  arm_timer();
  wait_readable();
}

// One message into the session, with the descriptor that came with it.
Connection::Received Connection::receive() {
  // Everything that was received is taken before the next call: one buffer for each thread will do.
  static thread_local std::vector<char> buffer(kReadBytes);
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    const bool nothing = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return nothing ? Received::kNothing : Received::kEnd;
  }
  for (cmsghdr* part_of = CMSG_FIRSTHDR(&message); part_of != nullptr;
       part_of = CMSG_NXTHDR(&message, part_of)) {
    if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part_of) + i * sizeof(int), sizeof fd);
      UniqueFd owned(fd);
      if (i == 0) session_.take_fd(std::move(owned));
    }
  }
  if (got == 0) return Received::kEnd;
  Replies replies;
  const auto bytes = static_cast<std::size_t>(got);
  hub_.store.metrics().bytes_received += bytes;
  session_.feed(std::string_view(buffer.data(), bytes), replies);
  after_feed(replies);
  if (!closing_) must_pause(bytes);
  return Received::kBytes;
}

void Connection::after_feed(Replies& replies) {
  send(replies.text);  // before the work: an acknowledgement does not wait for the analysis
  identify();
  session_.work();
  if (const std::string run = session_.take_finished(); !run.empty()) {
    send(boost::json::serialize(boost::json::object{{"kind", "closed"}, {"run", run}}) + "\n");
  }
  if (replies.close) close_after_writing();
}

// When the first line has said what the peer is, and when a further run begins.
void Connection::identify() {
  if (session_.waits_for_run() && !take_over_until_) take_over_until_ = Clock::now() + kResumeGrace;
  if (session_.role() == Session::Role::kUnknown || session_.waits_for_run()) return;
  if (!identified_) {
    identified_ = true;
    first_line_until_.reset();
    hub_.arrivals.identified(arrival_);
    if (session_.role() == Session::Role::kProbe) watch_process();
  }
  announce_producer();
  if (session_.run() != nullptr && session_.run()->info().run != announced_run_) announce_run();
  if (auto request = session_.take_control_request()) {
    control_ = std::move(request);
    control_until_ = Clock::now() + control_->timeout;
    answer_control();
  }
}

// Control clients see it, and can tell it something.
void Connection::announce_producer() {
  auto news = session_.take_news();
  if (!news) return;
  if (producer_ != 0) return hub_.producers.update(producer_, std::move(*news));
  producer_ = hub_.producers.add(std::move(*news), [weak = weak_from_this()](const std::string& line) {
    const auto self = weak.lock();
    if (!self) return;
    asio::post(self->socket_.get_executor(), [self, line] { self->guarded([&] { self->send(line); }); });
  });
}

// Whoever resumes this run can ask for it.
void Connection::announce_run() {
  announced_run_ = session_.run()->info().run;
  hub_.store.set_evict(announced_run_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    asio::post(self->socket_.get_executor(), [self] { self->guarded([&] { self->on_end(); }); });
  });
}

void Connection::watch_process() {
  if (!peer_.pidfd) return;
  process_.assign(::fcntl(peer_.pidfd.get(), F_DUPFD_CLOEXEC, 0));
  process_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const error_code& error) {
                        if (!error && !self->closing_) self->guarded([&] { self->on_process_death(); });
                      });
}

// Its socket may be held open by a child: what it sent is in there, more does not come from it.
void Connection::on_process_death() {
  const WorkGate::Pass pass(hub_.gate);
  dying_ = true;
  if (!pass) return pause(kWorkerRetry);
  for (int i = 0; i < kReadsAtDeath && !closing_; ++i) {
    if (receive() != Received::kBytes) break;
  }
  if (session_.run() != nullptr) session_.close_run(ending_reason(session_.run()->info(), true));
  shut();
}

void Connection::on_end() {
  if (closing_) return;
  closing_ = true;
  if (session_.run() == nullptr) return shut();
  if (session_.role() == Session::Role::kPlain) {
    session_.close_run("the connection of process " + std::to_string(peer_.pid) +
                       " ended without a terminal record");
  } else if (peer_.is_dead()) {
    session_.close_run(ending_reason(session_.run()->info(), true));
  } else {
    hand_over_run();
  }
  shut();
}

// The process lives, or is about to be seen dead: it has a moment to come back.
void Connection::hand_over_run() {
  auto run = session_.release_run();
  if (!run) return;
  const RunInfo info = run->info();
  const Store::Ticket ticket = hub_.store.park(std::move(run));
  GraceWatch::start(hub_, info, ticket, std::move(peer_.pidfd), kResumeGrace, GraceWatch::Cause::kHungUp);
}

void Connection::stop() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->guarded([&] {
      // What is whole is kept, what is in the socket included; the run stays open for the next life of the
      // daemon.
      for (int i = 0; i < kReadsPerWake && !self->closing_; ++i) {
        if (self->receive() != Received::kBytes) break;
      }
      if (self->session_.run() != nullptr) {
        if (self->session_.role() == Session::Role::kProbe && self->peer_.is_dead()) {
          self->session_.close_run(ending_reason(self->session_.run()->info(), true));
        } else if (auto run = self->session_.release_run()) {
          self->hub_.store.park(std::move(run));
        }
      }
      self->shut();
    });
  });
}

void Connection::send(const std::string& text) {
  if (text.empty() || shut_) return;
  to_send_ += text;
  if (to_send_.size() > kMaxUnsentBytes && session_.role() != Session::Role::kControl) {
    spdlog::warn("process {}: does not read what it is answered", peer_.pid);
    return on_end();
  }
  if (sending_.empty()) write_more();
}

void Connection::write_more() {
  sending_.swap(to_send_);
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](const error_code& error, std::size_t) {
                      self->sending_.clear();
                      // A peer that is gone is noticed by reading: what it sent before is still there.
                      if (error) self->to_send_.clear();
                      if (!self->to_send_.empty()) return self->write_more();
                      if (self->closing_) self->shut();
                    });
}

void Connection::close_after_writing() {
  closing_ = true;
  if (sending_.empty() && to_send_.empty()) shut();
}

void Connection::shut() {
  closing_ = shut_ = true;
  hub_.producers.remove(producer_);
  error_code ignored;
  timer_.cancel();
  if (process_.is_open()) process_.close(ignored);
  if (socket_.is_open()) socket_.close(ignored);
}

}  // namespace tensortap::collector
