// collectord: the daemon's command line.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

#include "collector/daemon.h"
#include "collector/listener.h"
#include "collector/store.h"
#include "format/default_paths.h"

namespace {

using tensortap::collector::Daemon;
using tensortap::collector::Listener;
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

int serve(const std::string& socket, const std::string& state) {
  if (state.empty()) {
    return complain("no folder for the runs: HOME is not set; give one with --state DIR", true);
  }
  Daemon::hold_stop_signals();
  auto listener = Listener::open(socket);
  if (!listener) return complain(listener.error());
  auto store = Store::open(state);
  if (!store) return complain(store.error());
  Daemon(std::move(*store), std::move(*listener)).run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string socket = format::default_socket_path();
  std::string state = format::default_state_folder();
  std::string level = "info";
  CLI::App app{"Keeps traces of PyTorch jobs, whatever becomes of the jobs, and turns them into reports.",
               "collectord"};
  app.footer(kExamples);
  app.set_version_flag("--version", "collectord " TENSORTAP_VERSION);
  app.add_option("--listen", socket, "Path of the Unix socket, at most 107 bytes [" + socket + "]")
      ->type_name("PATH");
  app.add_option("--state", state, "Folder for the runs [" + state + "]")->type_name("DIR");
  app.add_option("--log-level", level, "trace, debug, info, warning, error, critical or off [info]")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "critical", "off"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(std::string(error.what()) + "; collectord --help shows the options", true);
  }
  set_up_log(level);
  return serve(socket, state);
} catch (const std::exception& fault) {
  return complain(fault.what(), false);
}
