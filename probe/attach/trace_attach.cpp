// trace-attach: has a running job traced. README.md in this folder tells the order of events.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "format/default_paths.h"
#include "probe/attach/attach_options.h"
#include "probe/attach/attach_report.h"
#include "probe/attach/checks.h"
#include "probe/attach/injection.h"
#include "probe/attach/job_user.h"
#include "probe/launch/ctl_client.h"
#include "probe/launch/job.h"
#include "probe/launch/launch_processes.h"
#include "probe/launch/places.h"
#include "probe/launch/private_collector.h"
#include "probe/launch/summary.h"
#include "probe/preload/state.h"

namespace tensortap::probe {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using format::ErrorCode;

constexpr auto kHelloLimit = 20s;

Refusal own_failure(std::string reason) { return {AttachExit::kOwnFailure, std::move(reason), ""}; }

class Attach {
 public:
  explicit Attach(const AttachOptions& options) : options_(options) {}
  ~Attach() {
    if (!folder_.empty()) remove_private_folder(folder_);
  }

  AttachReport run() {
    report_.pid = options_.pid;
    report_.dry_run = options_.dry_run;
    if (auto refusal = attach()) {
      if (collector_) collector_->stop();
      report_.code = refusal->code;
      report_.reason = std::move(refusal->reason);
      report_.remedy = std::move(refusal->remedy);
    }
    return std::move(report_);
  }

 private:
  std::optional<Refusal> attach() {
    const auto library = find_preload_library();
    if (!library) return own_failure(library.error().message);
    auto found = examine(options_.pid, *library);
    if (auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    job_ = std::get<Attachable>(std::move(found));
    report_.program = job_.exe.substr(job_.exe.rfind('/') + 1);
    report_.command = job_.command;
    report_.torch = job_.torch_version.empty() ? job_.backend_version : job_.torch_version;
    report_.backend = job_.backend_version;
    if (options_.dry_run) return std::nullopt;

    if (auto failed = act_as(job_.status.real_uid, job_.status.effective_gid)) return own_failure(*failed);
    launch_ = make_launch_token();
    if (auto failed = find_or_start_collector()) return own_failure(*failed);
    if (auto refusal = put_probe_in(*library)) return refusal;
    if (auto refusal = wait_for_run()) return refusal;
    finish();
    return std::nullopt;
  }

  std::optional<std::string> find_or_start_collector() {
    report_.socket = options_.socket.empty() ? format::default_socket_path() : options_.socket;
    auto folder = make_private_folder();
    if (!folder) return folder.error().message;
    folder_ = *folder;
    const auto answer =
        ask_collector({.socket = report_.socket, .command = "runs", .launch = launch_, .limit_ms = 2000});
    if (answer) {
      if (!options_.state.empty()) {
        report_.notes.push_back("a collector listens at " + report_.socket +
                                " and keeps its own state folder; --state is not used");
      }
      return std::nullopt;
    }
    if (answer.error().code != ErrorCode::kNotFound)
      return answer.error().message + ": choose another socket with --socket";
    auto started = PrivateCollector::start(
        {.state = options_.state.empty() ? format::default_state_folder() : options_.state,
         .folder = folder_,
         .launch = launch_,
         .job = options_.pid});
    if (!started) return started.error().message;
    collector_.emplace(std::move(*started));
    report_.socket = collector_->socket();
    report_.state = collector_->state();
    return std::nullopt;
  }

  std::optional<Refusal> put_probe_in(const std::string& library) {
    std::string settings =
        "socket=" + report_.socket + "\nlaunch=" + launch_ + "\nlog=" + private_log(folder_) + "\n";
    if (!options_.capture.empty()) settings += "capture=" + options_.capture + "\n";
    Injection done = inject(job_, library, settings);
    report_.thread = done.thread;
    report_.stops = done.stops;
    report_.paused_ns = done.paused_ns;
    report_.longest_pause_ns = done.longest_ns;
    return std::move(done.refusal);
  }

  std::optional<Refusal> wait_for_run() {
    for (const auto begin = Clock::now(); Clock::now() - begin < kHelloLimit;) {
      const auto runs =
          ask_collector({.socket = report_.socket, .command = "runs", .launch = launch_, .limit_ms = 2000});
      if (runs && !runs->empty()) {
        report_.run = runs->front().run;
        report_.folder = runs->front().folder;
        wait_until_armed();
        return std::nullopt;
      }
      read_probe_log();
      if (log_says_no()) {
        return Refusal{AttachExit::kProbeSilent, "the probe is in the job, but stays disarmed; it says", ""};
      }
      if (!read_status(job_.pid)) {
        return Refusal{AttachExit::kNoProcess, "the job ended before its probe reported to the collector",
                       ""};
      }
      std::this_thread::sleep_for(20ms);
    }
    return Refusal{AttachExit::kProbeSilent,
                   "the probe is in the job (its state is " + std::to_string(preload_state(job_)) +
                       "), but no run has reached the collector at " + report_.socket,
                   "it goes on trying: see whether trace-ctl list shows it later"};
  }

  // The hello comes before the window opens.
  void wait_until_armed() const {
    for (int tries = 0; tries < 200 && preload_state(job_) == kTtArming; ++tries)
      std::this_thread::sleep_for(10ms);
  }

  void read_probe_log() {
    report_.probe_log.clear();
    std::ifstream file(private_log(folder_));
    for (std::string line; std::getline(file, line);) report_.probe_log.push_back(line);
  }

  bool log_says_no() const {
    for (const std::string& line : report_.probe_log) {
      if (line.find(": started backend ") != std::string::npos) return false;
    }
    return !report_.probe_log.empty();
  }

  void finish() {
    report_.probe_log.clear();
    if (collector_) {
      collector_->linger();
      collector_.reset();
      folder_.clear();  // the keeper's now
    }
    const auto analyze = find_program("trace-analyze");
    if (check_command("trace-analyze") != 0 && analyze) report_.analyze = shell_quoted(*analyze);
  }

  const AttachOptions& options_;
  Attachable job_;
  AttachReport report_;
  std::string launch_;
  std::string folder_;  // private; removed at the end unless the keeper took it over
  std::optional<PrivateCollector> collector_;
};

}  // namespace
}  // namespace tensortap::probe

int main(int argc, char** argv) {
  using namespace tensortap::probe;
  AttachOptions options;
  if (const auto ended = parse_attach_options(argc, argv, options)) {
    (ended->exit_code == 0 ? std::cout : std::cerr) << ended->text;
    return ended->exit_code;
  }
  const AttachReport report = Attach(options).run();
  if (options.json) {
    std::cout << json_report(report);
  } else if (!options.quiet || report.code != AttachExit::kAttached) {
    (options.dry_run && report.code == AttachExit::kAttached ? std::cout : std::cerr) << text_report(report);
  }
  return static_cast<int>(report.code);
}
