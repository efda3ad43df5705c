// collectord: the daemon's command line.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

#include "collector/daemon.h"
#include "collector/listener.h"
#include "collector/settings.h"
#include "collector/store.h"
#include "format/default_paths.h"

namespace {

using tensortap::collector::Daemon;
using tensortap::collector::Durability;
using tensortap::collector::Listener;
using tensortap::collector::Settings;
using tensortap::collector::SocketAccess;
using tensortap::collector::Store;
namespace format = tensortap::format;

constexpr int kUsageError = 2;
constexpr int kFailure = 1;

constexpr const char* kExamples = R"(
Examples:
  collectord &                                        listens at the user's default place
  collectord --listen /run/user/1000/tensortap.sock --state ~/.local/state/tensortap
  trace-run -- python3 train.py                       traces a job through it
  socat - UNIX-CONNECT:/run/user/1000/tensortap.sock < trace.jsonl

Runs lie in <state>/runs/: trace.jsonl.zst, run.json, report.json, report.txt. SIGTERM stops the daemon; runs whose job
still lives stay open and go on when it is started again.)";

int complain(const std::string& message, bool usage) {
  std::fprintf(stderr, "collectord: %s\n", message.c_str());
  return usage ? kUsageError : kFailure;
}

int complain(const format::Error& error) {
  return complain(error.to_string(), error.code == format::ErrorCode::kInvalidArgument);
}

void set_up_log(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("collectord");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

struct Options {
  std::string socket = format::default_socket_path();
  std::string state = format::default_state_folder();
  std::string level = "info";
  std::string mode = "0600";
  std::uint64_t keep_s = 0, report_s = 5;
  SocketAccess access;
  Settings settings;
};

// Sizes: 50GB, 512MiB; times: 7d, 12h.
void add_limits(CLI::App& app, Options& options) {
  Settings& settings = options.settings;
  const CLI::AsSizeValue size(true);
  const CLI::AsNumberWithUnit seconds(
      std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}});
  app.add_option("--keep", options.keep_s, "Remove runs this long after their end, such as 7d or 12h [never]")
      ->type_name("TIME")
      ->transform(seconds)
      ->group("Retention");
  app.add_option("--max-bytes", settings.retention.max_bytes,
                 "Remove the oldest finished runs when all traces together are larger, such as 50GB [never]")
      ->type_name("SIZE")
      ->transform(size)
      ->group("Retention");
  app.add_option("--quota-bytes", settings.quota.bytes, "Traces kept of one user [no limit]")
      ->type_name("SIZE")
      ->transform(size)
      ->group("Limits");
  app.add_option("--quota-runs", settings.quota.runs, "Open runs of one user [no limit]")
      ->type_name("N")
      ->group("Limits");
  app.add_option("--quota-rate", settings.quota.rate,
                 "Bytes of lines a second from one user; who sends more has to wait [no limit]")
      ->type_name("SIZE")
      ->transform(size)
      ->group("Limits");
  app.add_option("--quota-connections", settings.quota.connections, "Connections of one user [no limit]")
      ->type_name("N")
      ->group("Limits");
  app.add_option("--max-connections", settings.max_connections,
                 "Connections of all users [" + std::to_string(settings.max_connections) + "]")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->group("Limits");
  app.add_option("--max-memory", settings.max_memory,
                 "Lines that are not written yet, of all connections; who holds more than its part has to "
                 "wait [512MiB]")
      ->type_name("SIZE")
      ->transform(size)
      ->check(CLI::Range(std::size_t{8} << 20, std::size_t{1} << 46))
      ->group("Limits");
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--listen", options.socket,
                 "Path of the Unix socket, at most 107 bytes [" + options.socket + "]")
      ->type_name("PATH");
  app.add_option("--state", options.state, "Folder for the runs [" + options.state + "]")->type_name("DIR");
  app.add_option("--mode", options.mode,
                 "Mode of the socket: who may write to it may connect. 0660 with --group, or 0666, lets "
                 "other users in; each sees, orders and reads only what is its own [0600]")
      ->type_name("OCTAL");
  app.add_option("--group", options.access.group, "Group of the socket")->type_name("NAME");
  app.add_option("--durability", options.settings.durability,
                 "When a trace is on the medium: none, end (of the run), second (at most one after it was "
                 "written), frame (before it is acknowledged) [end]")
      ->type_name("WHEN")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Durability>{{"none", Durability::kNone},
                                                                            {"end", Durability::kEnd},
                                                                            {"second", Durability::kSecond},
                                                                            {"frame", Durability::kFrame}}));
  app.add_flag("!--no-reports", options.settings.analyze,
               "Only store: no live analysis, no report.json and report.txt");
  app.add_option("--report-every", options.report_s,
                 "Write the reports of open runs this often, 0: at the end only [5s]")
      ->type_name("TIME")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}}));
  app.add_option("--log-level", options.level, "trace, debug, info, warning, error, critical or off [info]")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "critical", "off"}));
  add_limits(app, options);
}

// False: no file mode.
bool settle(Options& options) {
  options.settings.report_every = std::chrono::seconds(options.report_s);
  options.settings.retention.keep = std::chrono::seconds(options.keep_s);
  char* end = nullptr;
  const unsigned long mode = std::strtoul(options.mode.c_str(), &end, 8);
  if (options.mode.empty() || *end != '\0' || mode > 0777) return false;
  options.access.mode = static_cast<mode_t>(mode);
  options.settings.other_users = (mode & 0022) != 0;
  return true;
}

int serve(const Options& options) {
  const std::string& state = options.state;
  if (state.empty()) {
    return complain("no folder for the runs: HOME is not set; give one with --state DIR", true);
  }
  Daemon::hold_stop_signals();
  auto listener = Listener::open(options.socket, options.access);
  if (!listener) return complain(listener.error());
  auto store = Store::open(state, options.settings);
  if (!store) return complain(store.error());
  Daemon(std::move(*store), std::move(*listener)).run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app{"Keeps traces of PyTorch jobs, whatever becomes of the jobs, and turns them into reports.",
               "collectord"};
  app.footer(kExamples);
  app.set_version_flag("--version", "collectord " TENSORTAP_VERSION);
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(std::string(error.what()) + "; collectord --help shows the options", true);
  }
  if (!settle(options)) {
    return complain("--mode " + options.mode + " is no file mode; it wants octal digits, such as 0660", true);
  }
  set_up_log(options.level);
  return serve(options);
} catch (const std::exception& fault) {
  return complain(fault.what(), false);
}
