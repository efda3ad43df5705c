#include "probe/launch/ctl_options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "format/default_paths.h"
#include "probe/core/capture_plan.h"

namespace tensortap::probe {
namespace {

constexpr const char* kFooter =
    R"(The probes are those of jobs that report to the collector at the socket: started by trace-run, preloaded, or attached
to. A capture begins at the border of an iteration where the job has iterations, else at once; `start` waits until the
traces are there and says how to read them (Ctrl-C stops the waiting, not the capture).

Exit status: 0 done; 1 no probe fits, an order was not obeyed or a capture failed; 2 wrong options; 3 no collector.

Examples:
  trace-ctl list                                  # who is there, and what it does
  trace-ctl start --next 3 --pid 4711             # the next three iterations of one job
  trace-ctl start --steps 10:15 --name train.py   # iterations 10 to 15, counted from now
  trace-ctl start --duration 5s --all             # five seconds of every job
  trace-ctl stop --rank 0
)";

void add_selectors(CLI::App* command, CtlOptions& options) {
  auto* which = command->add_option_group("Which probes (all that are given must fit)");
  const auto number = CLI::Validator(
      [](std::string& text) {
        const bool digits =
            !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string() : "'" + text + "' is no number";
      },
      "N");
  which->add_option("--pid", options.pid, "The process with this number")->check(number);
  which->add_option("--rank", options.rank, "The process of this rank")->check(number);
  which->add_option("--name", options.name, "Its program or script: train.py, or a whole path")
      ->type_name("NAME");
  which->add_option("--launch", options.launch, "Those of one trace-run (trace-ctl list --json shows it)")
      ->type_name("TOKEN");
}

std::string duration_or_steps(const std::string& steps, const std::string& next, const std::string& duration,
                              const std::string& always_on) {
  if (!steps.empty()) return "steps=" + steps;
  if (!next.empty()) return "next=" + next;
  if (!duration.empty()) return "duration=" + duration;
  if (!always_on.empty()) return always_on == "default" ? "always-on" : "always-on=" + always_on;
  return "now";
}

}  // namespace

ParsedCtlOptions parse_ctl_options(int argc, const char* const* argv) {
  ParsedCtlOptions parsed;
  CtlOptions& options = parsed.options;
  CLI::App app("Drives the tensortap probes that report to a collector.", "trace-ctl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", "trace-ctl " TENSORTAP_VERSION);
  app.add_option("--socket", options.socket,
                 "The collector's socket (default: $TENSORTAP_SOCKET, else the collector's own default)")
      ->type_name("PATH");
  app.add_flag("--json", options.json, "One JSON object for each probe, one a line");

  auto* list = app.add_subcommand(
      "list", "The probes that are connected: pid, command, rank, torch, state, rings, drops");
  add_selectors(list, options);
  auto* status = app.add_subcommand("status", "The same at length, with the run that is open");
  add_selectors(status, options);
  auto* start = app.add_subcommand("start", "Begins a capture");
  add_selectors(start, options);
  start->add_flag("--all", options.all, "Every probe");
  std::string steps, next, duration, always_on;
  auto* what = start->add_option_group("What (default: from now until stop)");
  what->add_option("--steps", steps, "The iterations A to B, both included; also A and A:")->type_name("A:B");
  what->add_option("--next", next, "The next N iterations")->type_name("N");
  what->add_option("--duration", duration, "So long: 500ms, 5s, 2m")->type_name("TIME");
  what->add_option("--always-on", always_on, "Counts and durations of operators, of this share of the calls")
      ->type_name("SHARE")
      ->expected(0, 1)
      ->default_str("default");
  what->require_option(0, 1);
  bool no_wait = false;
  start->add_flag("--no-wait", no_wait, "Do not wait for the traces");
  auto* stop = app.add_subcommand("stop", "Ends the capture that is open; its trace is kept");
  add_selectors(stop, options);
  stop->add_flag("--all", options.all, "Every probe");

  try {
    app.parse(argc, const_cast<char**>(argv));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    parsed.exit_code = code == 0 ? 0 : kCtlUsage;
    parsed.text =
        code == 0 ? out.str() : "trace-ctl: " + std::string(error.what()) + " (see trace-ctl --help)\n";
    return parsed;
  }
  const auto usage = [&](const std::string& message) {
    parsed.exit_code = kCtlUsage;
    parsed.text = "trace-ctl: " + message + " (see trace-ctl --help)\n";
    return parsed;
  };
  if (options.socket.empty()) options.socket = format::default_socket_path();
  options.command = list->parsed()     ? CtlOptions::Command::kList
                    : status->parsed() ? CtlOptions::Command::kStatus
                    : start->parsed()  ? CtlOptions::Command::kStart
                                       : CtlOptions::Command::kStop;
  options.wait = !no_wait;
  if (start->parsed()) {
    options.capture = duration_or_steps(steps, next, duration, always_on);
    CaptureOrder order;
    if (!parse_capture_order(options.capture, order)) {
      return usage("'" + options.capture.substr(options.capture.find('=') + 1) +
                   "' is not what this option takes");
    }
    // A capture without an end, or one that writes no trace, is not waited for.
    const bool ends = order.plan.steps != 0 || order.plan.duration_ns != 0;
    if (order.mode != CaptureOrder::Mode::kCapture || !ends) options.wait = false;
  }
  const bool said =
      !options.pid.empty() || !options.rank.empty() || !options.name.empty() || !options.launch.empty();
  if (options.all && said) return usage("--all and a choice of probes contradict each other");
  return parsed;
}

}  // namespace tensortap::probe
