#include "collector/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "collector/json_fields.h"
#include "collector/limits.h"
#include "collector/metrics.h"
#include "collector/naming.h"

namespace tensortap::collector {

namespace json = boost::json;
using format::Cursor;

namespace {

std::string welcome_line(const Run& run) {
  json::array cursors;
  for (const Cursor& cursor : run.cursors()) cursors.push_back(json::array{cursor.ring, cursor.position});
  return json::serialize(json::object{
             {"kind", "welcome"}, {"protocol", kProtocol}, {"run", run.info().run}, {"cursors", cursors}}) +
         "\n";
}

std::string refusal_cause(const format::Error& error) {
  return error.name.empty() ? "no_run" : std::string(error.name);
}

}  // namespace

Session::Session(Store& store, const Peer& peer, MemoryBudget& budget)
    : store_(store), peer_(peer), share_(budget) {}

Session::~Session() = default;

void Session::feed(std::string_view bytes, Replies& replies) {
  fed_at_ = Clock::now();
  const bool fits = lines_.feed(bytes, [&](std::string_view line) {
    take_line(line, replies);
    return !replies.close;
  });
  if (!fits) {
    lines_.clear();  // counted as what it is
    if (run_ != nullptr) run_->drop_line("line_too_long");
    refuse("line_too_long", "a line is longer than " + std::to_string(kMaxLineBytes) + " bytes", replies);
  }
  if (role_ == Role::kPlain && !done_ && whole_ >= kPlainFrameBytes) commit_whole(nullptr);
  if (role_ == Role::kProbe && whole_ >= kProbeFrameBytes) commit_whole(&replies);
  account();
  if (!over_quota_.empty()) return refuse("quota_bytes", std::exchange(over_quota_, {}), replies);
  if (held_.size() > kMaxHeldBytes) {
    refuse("no_batch", "more than " + std::to_string(kMaxHeldBytes) + " bytes came without a batch line",
           replies);
  }
}

// What this connection holds in memory, in the sum of all.
void Session::account() { share_.set(held_.capacity() + lines_.unfinished_bytes()); }

void Session::take_line(std::string_view line, Replies& replies) {
  if (waits_for_run()) return refuse("protocol", "a resumed run sends nothing before it is welcome", replies);
  const LineKind kind = gate_.classify(line);
  if (kind == LineKind::kBlank) return;
  switch (role_) {
    case Role::kUnknown:
      return first_line(kind, line, replies);
    case Role::kControl:
      return refuse("protocol", "one request for each connection", replies);
    case Role::kRefused:
      return;
    case Role::kPlain:
    case Role::kProbe:
      break;
  }
  if (role_ == Role::kProbe && kind == LineKind::kState) return take_state(line);
  if (role_ == Role::kProbe && kind == LineKind::kCounts) {
    if (line.size() <= kMaxCountsBytes) producer_.always_on = line;
    news_ = true;
    return;
  }
  if (role_ == Role::kProbe && kind == LineKind::kHello && (done_ || run_ == nullptr)) {
    work();  // runs follow each other on one connection
    return begin_probe(line, replies);
  }
  if (run_ != nullptr) producer_line(kind, line, replies);
}

void Session::first_line(LineKind kind, std::string_view line, Replies& replies) {
  switch (kind) {
    case LineKind::kMeta:
      return begin_plain(line, replies);
    case LineKind::kHello:
      return begin_probe(line, replies);
    case LineKind::kControl:
      return begin_control(line, replies);
    default:
      return refuse(
          "protocol",
          "the first line must be a meta record (a plain producer), hello (a probe) or ctl (a control "
          "client)",
          replies);
  }
}

void Session::begin_plain(std::string_view line, Replies& replies) {
  role_ = Role::kPlain;
  RunInfo info = describe_peer(peer_);
  if (const auto meta = parse_object(line)) info.run = string_field(*meta, "run_id");
  // A name that is taken or cannot be one is not the producer's to have: another run may be another
  // process's.
  const std::string own = "plain-" + std::to_string(info.pid) + "-" + std::to_string(random_u32());
  if (!is_run_identity(info.run) || store_.find(info.run)) info.run = own;
  auto run = store_.create(info);
  if (!run) return refuse(refusal_cause(run.error()), run.error().to_string(), replies);
  attach(std::move(*run), replies);
  meta_held_ = true;
  hold(line);
}

void Session::begin_probe(std::string_view line, Replies& replies) {
  role_ = Role::kProbe;
  auto hello = parse_hello(line, peer_);
  if (!hello) return refuse("hello", hello.error().message, replies);
  introduce(*hello);
  if (!hello->state.empty()) {
    replies.text += json::serialize(json::object{{"kind", "welcome"}, {"protocol", kProtocol}}) + "\n";
    return;
  }
  if (!memfd_)
    return refuse("memfd", "hello came without its memfd (SCM_RIGHTS with the first byte)", replies);
  auto image = RingImage::open(std::move(memfd_));
  if (!image) return refuse("memfd", image.error().message, replies);
  image_.emplace(std::move(*image));
  if (hello->resume) return resume_run(std::make_unique<Hello>(std::move(*hello)), false, replies);
  new_run(hello->info, replies);
}

void Session::introduce(const Hello& hello) {
  Producer before = std::exchange(producer_, Producer{});
  producer_.always_on = std::move(before.always_on);
  producer_.last_run = hello.info.run.empty() ? std::move(before.last_run) : hello.info.run;
  producer_.who = hello.info;
  producer_.run = hello.info.run;
  producer_.state = hello.state.empty() ? "ready" : hello.state;
  news_ = true;
}

void Session::take_state(std::string_view line) {
  const auto object = parse_object(line);
  if (!object) return;
  producer_.state = string_field(*object, "state").substr(0, kMaxTokenBytes);
  producer_.run = string_field(*object, "run").substr(0, kMaxIdentityBytes);
  producer_.error = string_field(*object, "error").substr(0, kMaxTokenBytes);
  producer_.step = unsigned_field(*object, "step");
  producer_.rings = unsigned_field(*object, "rings");
  producer_.offered = unsigned_field(*object, "offered");
  producer_.dropped = unsigned_field(*object, "dropped");
  news_ = true;
}

std::optional<Producer> Session::take_news() {
  if (!std::exchange(news_, false)) return std::nullopt;
  return producer_;
}

void Session::new_run(RunInfo info, Replies& replies) {
  info.memfd_bytes = image_->bytes();
  auto run = store_.create(std::move(info));
  if (!run) return refuse(refusal_cause(run.error()), run.error().to_string(), replies);
  attach(std::move(*run), replies);
}

void Session::resume_run(std::unique_ptr<Hello> hello, bool last_try, Replies& replies) {
  const std::string name = hello->info.run;
  const auto known = store_.find(name);
  if (!known) return refuse("resume", "the run " + name + " is not known here", replies);
  if (!known->probe || known->pid != hello->info.pid || known->start_time != hello->info.start_time ||
      known->uid != hello->info.uid) {
    return refuse("resume", "the run " + name + " is another process's", replies);
  }
  Store::Claim claim = store_.claim(name);
  switch (claim.state) {
    case Store::Claim::State::kUnknown:
    case Store::Claim::State::kClosed:
      return refuse("resume", "the run " + name + " is closed", replies);
    case Store::Claim::State::kBusy:
      if (last_try) return refuse("resume", "the run " + name + " is held by another connection", replies);
      store_.evict(name);
      resume_ = std::move(hello);
      return;
    case Store::Claim::State::kClaimed:
      break;
  }
  if (format::Status status = claim.run->open(); !status) {
    store_.finish(std::move(claim.run), {status.error().to_string(), true});
    return refuse("disk", status.error().to_string(), replies);
  }
  spdlog::info("run {}: resumed", name);
  attach(std::move(claim.run), replies);
}

void Session::retry_resume(Replies& replies, bool last_try) {
  if (resume_ != nullptr) resume_run(std::move(resume_), last_try, replies);
}

void Session::attach(std::unique_ptr<Run> run, Replies& replies) {
  run_ = std::move(run);
  if (image_) run_->set_image(std::move(*image_));
  image_.reset();
  meta_held_ = run_->has_meta();
  terminal_held_ = terminal_whole_ = false;
  done_ = run_->has_terminal();
  cursors_.clear();
  seq_.reset();
  lines_since_batch_ = 0;
  if (role_ == Role::kProbe) replies.text += welcome_line(*run_);
}

void Session::begin_control(std::string_view line, Replies& replies) {
  role_ = Role::kControl;
  const auto object = parse_object(line);
  ControlRequest request;
  const std::string command = object ? string_field(*object, "command") : std::string();
  using Command = ControlRequest::Command;
  static constexpr std::pair<std::string_view, Command> kCommands[] = {{"runs", Command::kRuns},
                                                                       {"wait", Command::kWait},
                                                                       {"list", Command::kList},
                                                                       {"start", Command::kStart},
                                                                       {"stop", Command::kStop}};
  const auto known = std::find_if(std::begin(kCommands), std::end(kCommands),
                                  [&](const auto& entry) { return entry.first == command; });
  if (known == std::end(kCommands)) {
    return refuse("protocol", "ctl knows the commands runs, wait, list, start and stop", replies);
  }
  request.command = known->second;
  request.selector.launch = string_field(*object, "launch");
  request.selector.name = string_field(*object, "name");
  request.selector.pid = signed_field(*object, "pid");
  request.selector.rank = signed_field(*object, "rank");
  request.capture = string_field(*object, "capture");
  if (request.command == Command::kStart &&
      (request.capture.empty() || request.capture.size() > kMaxTokenBytes)) {
    return refuse("protocol", "ctl start says what to capture", replies);
  }
  const std::uint64_t limit = std::chrono::duration_cast<std::chrono::milliseconds>(kMaxWait).count();
  request.timeout =
      std::chrono::milliseconds(std::min(unsigned_field(*object, "timeout_ms").value_or(10000), limit));
  control_ = std::move(request);
}

void Session::refuse(const std::string& cause, const std::string& reason, Replies& replies) {
  if (replies.close) return;
  spdlog::warn("process {} of user {}: refused: {}", peer_.pid, peer_.uid, reason);
  store_.metrics().count_refusal(cause);
  replies.text += json::serialize(json::object{{"kind", "refused"}, {"reason", reason}}) + "\n";
  replies.close = true;
  role_ = Role::kRefused;
  resume_.reset();
  // It may have sent more than was looked at.
  if (run_ != nullptr) close_run("refused by the collector: " + reason, true);
  account();
}

void Session::work() {
  if (run_ == nullptr) return;
  run_->analyze();
  if (!done_) return;
  done_ = false;
  finished_ = run_->info().run;
  store_.finish(std::move(run_), {});
}

void Session::close_run(const std::string& reason, bool refused) {
  if (run_ == nullptr) return;
  commit_whole(nullptr, Commit::kLast);
  drop_tail();
  const Ending ending{reason, run_->info().probe ? !run_->has_image() : refused};
  store_.finish(std::move(run_), ending);
}

std::unique_ptr<Run> Session::release_run() {
  if (run_ == nullptr) return nullptr;
  commit_whole(nullptr);
  if (done_) {
    work();
    return nullptr;
  }
  drop_tail();
  run_->analyze();
  return std::move(run_);
}

}  // namespace tensortap::collector
