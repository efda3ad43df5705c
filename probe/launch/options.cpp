#include "probe/launch/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "format/default_paths.h"
#include "probe/core/capture_plan.h"

namespace tensortap::probe {
namespace {

constexpr const char* kFooter =
    R"(If a collector listens at the socket, the job's probe reports to it. If none does, trace-run starts a private one for
this run, waits for its report and says where the trace is. The job keeps its terminal, its process group, its output
and its exit code.

Each version of torch needs its own backend of the probe. If there is none for the job's, it is built before the job
starts (about a minute, once; kept in the user's cache folder) where a C++ compiler and torch's headers are there.

Exit status: the job's; 128 + N if signal N killed it; 127 command not found; 126 command can't be executed;
125 trace-run itself failed; 2 wrong options.

Examples:
  trace-run -- python3 train.py --epochs 3
  trace-run --state /data/traces -- ./train_cpp
  trace-run --steps 10:15 -- python3 train.py   # only these iterations, both included, numbered from 0
  trace-run --idle -- python3 serve.py          # nothing until trace-ctl start says so
  trace-run --exec -- python3 serve.py          # becomes the job: same pid, for launchers that watch it
)";

// Where the job's command begins: at the first word that is no option of ours. Also where `--` was taken
// away.
struct Split {
  int ours_end;
  int command_begin;
};

Split split_arguments(int argc, const char* const* argv) {
  int at = 1;
  while (at < argc) {
    const std::string_view word = argv[at];
    if (word == "--") return {at, at + 1};
    if (word.size() < 2 || word[0] != '-') break;
    const bool takes_value = word == "--socket" || word == "--state" || word == "--steps" ||
                             word == "--duration" || word == "--stats";
    at += takes_value && at + 1 < argc ? 2 : 1;
  }
  return {at, at};
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  return error ? path : absolute.string();
}

ParsedOptions usage_error(const std::string& message) {
  ParsedOptions out;
  out.exit_code = kExitUsage;
  out.text = "trace-run: " + message + "\n";
  return out;
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  CLI::App app("Runs a PyTorch or libtorch job with the tensortap probe in it.", "trace-run");
  std::vector<std::string> shown_only;  // the command never reaches the parser: its options are not ours
  app.add_option("COMMAND", shown_only, "The job and its arguments; `--` before it is optional")
      ->type_name("");
  app.footer(kFooter);
  app.add_option("--socket", options.socket,
                 "The collector's socket (default: $TENSORTAP_SOCKET, else the collector's own default)")
      ->type_name("PATH");
  auto* state =
      app.add_option("--state", options.state,
                     "Where a private collector keeps the traces (default: the user's state folder)")
          ->type_name("DIR");
  std::string steps, duration;
  bool idle = false, always_on = false;
  auto* when = app.add_option_group("When to capture (default: the whole job)");
  when->add_option("--steps", steps, "Only the iterations A to B, both included; also A and A:")
      ->type_name("A:B");
  when->add_option("--duration", duration, "Only so long, from the first iteration on: 500ms, 5s, 2m")
      ->type_name("TIME");
  when->add_flag("--idle", idle, "Nothing until trace-ctl start says so");
  when->add_flag(
      "--always-on", always_on,
      "No trace: counts and durations of operators, every few seconds (trace-ctl status shows them)");
  when->require_option(0, 1);
  app.add_flag("--gradients", options.gradients,
               "Record the state and norm of every parameter's gradient in each step (reads their values)");
  app.add_option(
         "--stats", options.stats,
         "Record statistics of what these modules return: patterns of paths, such as 'encoder.*,head'")
      ->type_name("GLOBS");
  app.add_option("--when-full", options.when_full,
                 "What a thread does whose records the collector takes too slowly: drop the newest ones and "
                 "count them (default), or block until there is room")
      ->type_name("drop|block")
      ->check(CLI::IsMember({"drop", "block"}));
  app.add_flag("--quiet", options.quiet, "Say nothing at the end");
  app.add_flag("--exec", options.exec,
               "Become the job instead of waiting for it; nothing is said at the end");
  bool no_build = false;
  app.add_flag("--no-build", no_build,
               "Don't build the backend for the job's torch when there is none yet (also: "
               "TENSORTAP_BUILD_BACKEND=0)");
  app.set_version_flag("--version", "trace-run " TENSORTAP_VERSION);

  const Split split = split_arguments(argc, argv);
  try {
    app.parse(split.ours_end, const_cast<char**>(argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return usage_error(std::string(error.what()) + " (see trace-run --help)");
    std::ostringstream out, err;
    parsed.exit_code = app.exit(error, out, err);
    parsed.text = out.str();
    return parsed;
  }

  if (!steps.empty()) options.capture = "steps=" + steps;
  if (!duration.empty()) options.capture = "duration=" + duration;
  if (idle) options.capture = "idle";
  if (always_on) options.capture = "always-on";
  if (CaptureOrder order; !options.capture.empty() && !parse_capture_order(options.capture, order)) {
    return usage_error(steps.empty() ? "--duration wants a time like 500ms, 5s or 2m, not '" + duration + "'"
                                     : "--steps wants A:B with A not above B, A, or A:, not '" + steps + "'");
  }
  const char* build = std::getenv("TENSORTAP_BUILD_BACKEND");
  options.build = !no_build && (build == nullptr || std::string_view(build) != "0");
  options.command.assign(argv + split.command_begin, argv + argc);
  if (options.command.empty()) return usage_error("no command given: trace-run [OPTIONS] -- COMMAND...");
  if (options.command[0].empty()) return usage_error("the command is an empty word");
  options.socket = absolute_path(options.socket.empty() ? format::default_socket_path() : options.socket);
  if (options.socket.size() > format::kMaxSocketPathBytes) {
    return usage_error("the socket path " + options.socket + " has " + std::to_string(options.socket.size()) +
                       " bytes, Unix sockets allow " + std::to_string(format::kMaxSocketPathBytes) +
                       "; choose a shorter one with --socket");
  }
  options.state_given = state->count() > 0;
  if (options.state_given && options.state.empty()) return usage_error("--state needs a folder");
  options.state = absolute_path(options.state_given ? options.state : format::default_state_folder());
  return parsed;
}

}  // namespace tensortap::probe
