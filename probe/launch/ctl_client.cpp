#include "probe/launch/ctl_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

#include "probe/launch/fd.h"
#include "probe/launch/flat_json.h"

namespace tensortap::probe {
namespace {

using format::Error;
using format::ErrorCode;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxAnswerBytes = 16u << 20;

Error system_error(const std::string& what, int number) {
  const bool nobody = number == ENOENT || number == ECONNREFUSED || number == ENOTDIR;
  return {.code = nobody ? ErrorCode::kNotFound : ErrorCode::kIo,
          .message = what + ": " + std::strerror(number)};
}

format::Result<Fd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return system_error("cannot connect to " + path, ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("cannot make a socket", errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return system_error("cannot connect to " + path, errno);
  }
  return socket;
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

pid_t to_pid(std::string_view text) {
  pid_t pid = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || pid > 100'000'000) return 0;
    pid = pid * 10 + (c - '0');
  }
  return pid;
}

// The answer so far; whole lines are taken out of it as they come.
class Answer {
 public:
  explicit Answer(const std::string& socket) : socket_(socket) {}

  // The error that ends the conversation, if these bytes hold one.
  std::optional<Error> feed(std::string_view bytes) {
    received_ += bytes.size();
    if (received_ > kMaxAnswerBytes) return stranger();
    pending_ += bytes;
    std::size_t end;
    while (!done_ && (end = pending_.find('\n')) != std::string::npos) {
      if (auto error = line(std::string_view(pending_).substr(0, end))) return error;
      pending_.erase(0, end + 1);
    }
    return std::nullopt;
  }
  bool done() const { return done_; }
  struct Line {
    FlatObject members;
    std::string text;
  };
  std::vector<Line>& lines() { return lines_; }

  Error stranger() const {
    return {.code = ErrorCode::kUnsupported,
            .message = "what listens at " + socket_ + " does not answer like collectord"};
  }

 private:
  std::optional<Error> line(std::string_view text) {
    auto object = parse_flat_object(text);
    if (!object) return stranger();
    const std::string_view kind = member(*object, "kind");
    if (kind == "refused") {
      return Error{.code = ErrorCode::kRejected, .message = std::string(member(*object, "reason"))};
    }
    if (kind != "end" && kind != "run" && kind != "producer") return stranger();
    done_ = kind == "end";
    if (!done_) lines_.push_back({std::move(*object), std::string(text)});
    return std::nullopt;
  }

  const std::string& socket_;
  std::string pending_;
  std::size_t received_ = 0;
  std::vector<Line> lines_;
  bool done_ = false;
};

std::string request_line(const CtlRequest& request) {
  std::string line = R"({"kind":"ctl","command":)" + json_quoted(request.command);
  if (!request.launch.empty()) line += R"(,"launch":)" + json_quoted(request.launch);
  if (!request.name.empty()) line += R"(,"name":)" + json_quoted(request.name);
  if (!request.capture.empty()) line += R"(,"capture":)" + json_quoted(request.capture);
  if (!request.pid.empty()) line += R"(,"pid":)" + request.pid;
  if (!request.rank.empty()) line += R"(,"rank":)" + request.rank;
  if (request.command == "wait") line += R"(,"timeout_ms":)" + std::to_string(request.limit_ms);
  return line + "}\n";
}

// `["python3","train.py"]`: the collector's own writing, so anything unexpected is just left out.
std::vector<std::string> words_of(std::string_view array) {
  std::vector<std::string> words;
  for (std::size_t at = array.find('"'); at != std::string_view::npos; at = array.find('"', at)) {
    std::size_t end = at + 1;
    while (end < array.size() && array[end] != '"') end += array[end] == '\\' ? 2 : 1;
    const auto word = parse_flat_object("{\"w\":" + std::string(array.substr(at, end + 1 - at)) + "}");
    if (!word) break;
    words.emplace_back(member(*word, "w"));
    at = end + 1;
  }
  return words;
}

format::Result<std::vector<Answer::Line>> converse(const CtlRequest& request) {
  auto socket = connect_to(request.socket);
  if (!socket) return socket.error();
  Answer answer(request.socket);
  if (!send_all(socket->get(), request_line(request))) return answer.stranger();

  // The collector keeps the limit itself; a second more shows one that hangs.
  const auto deadline = Clock::now() + std::chrono::milliseconds(request.limit_ms + 1000);
  while (!answer.done()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Error{.code = ErrorCode::kTruncated, .message = "no answer from " + request.socket};
    pollfd wanted[2] = {{socket->get(), POLLIN, 0}, {request.interrupt_fd, POLLIN, 0}};
    if (::poll(wanted, 2, static_cast<int>(left)) < 0 && errno != EINTR) return system_error("poll", errno);
    if (wanted[1].revents != 0) return Error{.code = ErrorCode::kTruncated, .message = "interrupted"};
    if (wanted[0].revents == 0) continue;
    char buffer[16384];
    const ssize_t got = ::recv(socket->get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return answer.stranger();
    if (auto error = answer.feed({buffer, static_cast<std::size_t>(got)})) return *error;
  }
  return std::move(answer.lines());
}

}  // namespace

format::Result<std::vector<CollectedRun>> ask_collector(const CtlRequest& request) {
  auto lines = converse(request);
  if (!lines) return lines.error();
  std::vector<CollectedRun> runs;
  for (const Answer::Line& line : *lines) {
    const auto text_of = [&](std::string_view key) { return std::string(member(line.members, key)); };
    runs.push_back({.run = text_of("run"),
                    .folder = text_of("folder"),
                    .state = text_of("state"),
                    .reason = text_of("reason"),
                    .exe = text_of("exe"),
                    .parent_run = text_of("parent_run"),
                    .pid = to_pid(text_of("pid"))});
  }
  return runs;
}

format::Result<std::vector<ConnectedProbe>> ask_probes(const CtlRequest& request) {
  auto lines = converse(request);
  if (!lines) return lines.error();
  std::vector<ConnectedProbe> probes;
  for (const Answer::Line& line : *lines) {
    const auto text_of = [&](std::string_view key) { return std::string(member(line.members, key)); };
    probes.push_back({.pid = to_pid(text_of("pid")),
                      .state = text_of("state"),
                      .exe = text_of("exe"),
                      .torch = text_of("torch"),
                      .launch = text_of("launch"),
                      .command = words_of(text_of("command")),
                      .rank = text_of("rank"),
                      .world_size = text_of("world_size"),
                      .last_run = text_of("last_run"),
                      .run = text_of("run"),
                      .step = text_of("step"),
                      .rings = text_of("rings"),
                      .dropped = text_of("dropped"),
                      .error = text_of("error"),
                      .always_on = text_of("always_on"),
                      .json = line.text});
  }
  return probes;
}

}  // namespace tensortap::probe
