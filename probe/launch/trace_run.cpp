// trace-run: runs a job with the probe in it. README.md in this folder tells the order of events.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "probe/launch/ctl_client.h"
#include "probe/launch/job.h"
#include "probe/launch/launch_processes.h"
#include "probe/launch/missing_backend.h"
#include "probe/launch/options.h"
#include "probe/launch/places.h"
#include "probe/launch/private_collector.h"
#include "probe/launch/summary.h"
#include "probe/launch/torch_of_command.h"

namespace tensortap::probe {
namespace {

using format::ErrorCode;

constexpr int kReportLimitMs = 30'000;

void complain(const std::string& message) { std::cerr << "trace-run: " << message << "\n"; }

int fail(const std::string& message) {
  complain(message);
  return kExitTraceRun;
}

int command_failed(const std::string& command, int error) {
  complain(command + ": " +
           (error == ENOENT && command.find('/') == std::string::npos ? "command not found"
                                                                      : std::strerror(error)));
  return error == ENOENT || error == ENOTDIR ? kExitNotFound : kExitNotExecutable;
}

bool is_switched_on(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] != '\0' && std::strcmp(value, "0") != 0;
}

// The file that the preload parts write to: the user's own, or one in our private folder.
class ProbeLog {
 public:
  explicit ProbeLog(const std::string& private_path) {
    const char* given = std::getenv("TENSORTAP_LOG");
    ours_ = given == nullptr || given[0] == '\0';
    path_ = ours_ ? private_path : given;
    struct stat status {};
    if (!path_.empty() && ::stat(path_.c_str(), &status) == 0) begin_ = status.st_size;
  }
  std::string variable() const { return ours_ ? path_ : std::string(); }

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    std::ifstream file(path_);
    file.seekg(begin_);
    for (std::string line; std::getline(file, line);) out.push_back(line);
    return out;
  }

 private:
  bool ours_ = false;
  std::string path_;
  off_t begin_ = 0;  // what was in the user's file before
};

class Launch {
 public:
  explicit Launch(const Options& options) : options_(options) {}
  ~Launch() {
    if (!folder_.empty()) remove_private_folder(folder_);
  }

  int run() {
    if (const int error = check_command(options_.command[0]))
      return command_failed(options_.command[0], error);
    const auto preload = find_preload_library();
    if (!preload) return fail(preload.error().message);
    environment_ = {.preload = *preload,
                    .socket = options_.socket,
                    .launch = make_launch_token(),
                    .capture = options_.capture,
                    .backends = {},
                    .log = {},
                    .gradients = options_.gradients,
                    .stats = options_.stats,
                    .when_full = options_.when_full};
    provide_backend();
    if (const auto error = find_or_start_collector()) return fail(*error);
    return options_.exec ? become_job() : watch_job();
  }

 private:
  // Before the job starts, so that it is traced from its first operator on. Whatever goes wrong here is said
  // by the builder, and the job runs on without a trace.
  void provide_backend() {
    const std::string folder = environment_.preload.substr(0, environment_.preload.rfind('/') + 1);
    environment_.backends = backend_cache_folder(folder);
    if (is_switched_on("TENSORTAP_DISABLE") || std::getenv("TENSORTAP_BACKEND") != nullptr) return;
    if (!options_.build && !options_.exec) return;  // the summary says what is missing
    const auto library = torch_of_command(options_.command);
    if (!library) return;
    const TorchFile torch = describe_torch_file(*library);
    if (torch.version.empty() && torch.build_id.empty()) return;  // what is built could not be recognised
    if (has_backend(torch, folder, environment_.backends)) return;
    const auto builder = find_program("tensortap-build-backend");
    if (options_.build && builder) {
      build_backend(*builder, *library, environment_.backends, options_.quiet);
    } else if (!options_.quiet) {
      complain("no trace: no backend for " + *library + " yet; this builds one\n  " +
               build_command(builder ? *builder : "tensortap-build-backend", *library));
    }
  }

  std::optional<std::string> find_or_start_collector() {
    const auto answer = ask_collector(
        {.socket = options_.socket, .command = "runs", .launch = environment_.launch, .limit_ms = 2000});
    if (answer) {
      if (options_.state_given && !options_.quiet) {
        complain("note: a collector listens at " + options_.socket +
                 " and keeps its own state folder; --state is not used");
      }
    } else if (answer.error().code != ErrorCode::kNotFound) {
      return answer.error().message + ": choose another socket with --socket";
    }
    const bool start = !answer;
    if (start || !options_.exec) {
      auto folder = make_private_folder();
      if (!folder) return folder.error().message;
      folder_ = *folder;
    }
    return start ? start_collector() : std::nullopt;
  }

  std::optional<std::string> start_collector() {
    auto started = PrivateCollector::start({.state = options_.state,
                                            .folder = folder_,
                                            .launch = environment_.launch,
                                            .becomes_job = options_.exec});
    if (!started) return started.error().message;
    collector_.emplace(std::move(*started));
    environment_.socket = collector_->socket();
    return std::nullopt;
  }

  int become_job() {
    apply_environment(environment_);
    const int error = exec_command(options_.command);
    stop_collector();
    return command_failed(options_.command[0], error);
  }

  int watch_job() {
    ProbeLog log(private_log(folder_));
    environment_.log = log.variable();
    SignalInbox inbox;
    const JobEnd end = run_job(options_.command, environment_, inbox);
    if (end.exec_error != 0) {
      stop_collector();
      return command_failed(options_.command[0], end.exec_error);
    }
    inbox.only_interrupts();
    const Outcome outcome = collect_outcome(inbox, log);
    if (collector_ && must_linger(outcome)) {
      collector_->linger();
      folder_.clear();  // the keeper's now
    } else {
      stop_collector();
    }
    if (!options_.quiet) std::cerr << summary(outcome);
    return end.exit_code;
  }

  Outcome collect_outcome(const SignalInbox& inbox, const ProbeLog& log) const {
    Outcome outcome;
    auto runs = ask_collector({.socket = environment_.socket,
                               .command = "wait",
                               .launch = environment_.launch,
                               .limit_ms = kReportLimitMs,
                               .interrupt_fd = inbox.fd()});
    if (runs) {
      outcome.runs = std::move(*runs);
    } else {
      outcome.ask_error = runs.error().message;
    }
    outcome.still_running = processes_of_launch(environment_.launch);
    outcome.probe_log = log.lines();
    outcome.socket = environment_.socket;
    outcome.capture = options_.capture;
    if (collector_) outcome.state = collector_->state();
    const auto analyze = find_program("trace-analyze");
    if (check_command("trace-analyze") != 0 && analyze) outcome.analyze = shell_quoted(*analyze);
    const auto builder = find_program("tensortap-build-backend");
    if (builder) outcome.builder = *builder;
    outcome.disabled = is_switched_on("TENSORTAP_DISABLE");
    return outcome;
  }

  // A child of the job may still be traced; and a report that was not waited for should still be written.
  static bool must_linger(const Outcome& outcome) {
    return !outcome.still_running.empty() || !outcome.ask_error.empty() ||
           std::any_of(outcome.runs.begin(), outcome.runs.end(),
                       [](const auto& run) { return run.state == "open"; });
  }

  void stop_collector() {
    if (!collector_) return;
    collector_->stop();
    collector_.reset();
  }

  const Options& options_;
  JobEnvironment environment_;
  std::string folder_;  // private; removed at the end unless the keeper took it over
  std::optional<PrivateCollector> collector_;
};

}  // namespace
}  // namespace tensortap::probe

int main(int argc, char** argv) {
  const auto parsed = tensortap::probe::parse_options(argc, argv);
  if (parsed.exit_code) {
    (*parsed.exit_code == 0 ? std::cout : std::cerr) << parsed.text;
    return *parsed.exit_code;
  }
  return tensortap::probe::Launch(parsed.options).run();
}
