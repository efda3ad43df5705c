#include "probe/attach/attach_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "format/default_paths.h"
#include "probe/attach/refusal.h"

namespace tensortap::probe {
namespace {

constexpr const char* kFooter =
    R"help(The job is looked at first, and left alone with the reason and the remedy if it can't be traced. Then one of its threads is
borrowed at a safe moment, for about a millisecond, to load the probe; the others go on. No debugger is needed. The command
returns when the probe has reported to a collector.

If a collector listens at the socket, the probe reports to it. If none does, a private one is started that stays until the job
ends. As root, trace-attach acts as the job's user: the collector and the trace are that user's.

What differs from a job under trace-run: what ran before is not seen (it is counted: late_arm); C++ modules built before are named
by their types, not by their paths (Python's have their paths); operators of handlers that run
at the job's exit after our own are not seen; programs that the job starts are not traced, its forked workers are.

Exit status:
    0  attached (with --dry-run: it could be)
    2  wrong options
    3  no such process, or it ended meanwhile
    4  not permitted: another user's, set-user-id, not dumpable, yama's ptrace_scope, TENSORTAP_DISABLE
    5  the job is in another container: other mount or pid namespace, other root folder
    6  statically linked program
    7  another architecture, a C library that is not glibc, a shadow stack
    8  torch is not loaded, or not yet
    9  no backend for the job's torch version
   10  traced already: use trace-ctl
   11  a debugger is attached to it
   12  no safe moment was found, or the job is stopped
   13  the probe is in the job, but no run has reached the collector
  125  trace-attach itself failed (no collector could be started, the probe library is missing)

Examples:
  trace-attach 4711
  trace-attach --dry-run 4711                    # could it be? why not?
  trace-attach --state /data/traces 4711
  trace-attach --json "$(pgrep -n -f train.py)" | jq -r .trace
  sudo trace-attach 4711                         # another user's job
)help";

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  return error ? path : absolute.string();
}

EndedByOptions usage_error(const std::string& message) {
  return {static_cast<int>(AttachExit::kUsage), "trace-attach: " + message + " (see trace-attach --help)\n"};
}

}  // namespace

std::optional<EndedByOptions> parse_attach_options(int argc, const char* const* argv, AttachOptions& out) {
  CLI::App app(
      "Loads the tensortap probe into a running PyTorch or libtorch job (Python or C++) and has it traced.",
      "trace-attach");
  app.add_option("PID", out.pid, "The job's process")->type_name("")->required()->check(CLI::PositiveNumber);
  app.add_option("--socket", out.socket,
                 "The collector's socket (default: $TENSORTAP_SOCKET, else the collector's own default)")
      ->type_name("PATH");
  app.add_option("--state", out.state,
                 "Where a private collector keeps the traces (default: the user's state folder)")
      ->type_name("DIR");
  app.add_option("--capture", out.capture,
                 "What to capture, as trace-ctl start says it (default: everything from now on)")
      ->type_name("SPEC");
  app.add_flag("--dry-run", out.dry_run,
               "Look at the job and say whether it could be attached to; touch nothing");
  app.add_flag("--json", out.json, "Print the result as one JSON object on standard output");
  app.add_flag("--quiet", out.quiet, "Say nothing when all went well");
  app.set_version_flag("--version", "trace-attach " TENSORTAP_VERSION);
  app.footer(kFooter);
  try {
    app.parse(argc, const_cast<char**>(argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return usage_error(error.what());
    std::ostringstream text, err;
    const int code = app.exit(error, text, err);
    return EndedByOptions{code, text.str()};
  }
  out.socket = absolute_path(out.socket);
  out.state = absolute_path(out.state);
  if (out.socket.size() > format::kMaxSocketPathBytes) {
    return usage_error("the socket path has " + std::to_string(out.socket.size()) +
                       " bytes, Unix sockets allow " + std::to_string(format::kMaxSocketPathBytes));
  }
  if (out.capture.find('\n') != std::string::npos || out.capture.size() > 255) {
    return usage_error("--capture is one line of at most 255 bytes");
  }
  return std::nullopt;
}

}  // namespace tensortap::probe
