#include "probe/launch/summary.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>

extern "C" {
#include "probe/preload/backend_list.h"
}

namespace tensortap::probe {
namespace {

constexpr std::size_t kMaxLogLines = 5;

class Writer {
 public:
  void line(const std::string& text) { out_ += "trace-run: " + text + "\n"; }
  void command(const std::string& text) { out_ += "  " + text + "\n"; }  // to be copied: without our name
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_alive(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

std::string state_of(const CollectedRun& run) {
  if (run.state == "complete") return "is complete";
  if (run.state == "failed") return run.reason.empty() ? "ends early" : "ends early (" + run.reason + ")";
  return is_alive(run.pid) ? "goes on, the process still runs" : "is not finalized yet";
}

bool belongs_to_another(const CollectedRun& run, const std::vector<CollectedRun>& runs) {
  return !run.parent_run.empty() && std::any_of(runs.begin(), runs.end(), [&](const auto& other) {
    return other.run == run.parent_run;
  });
}

void say_runs(const Outcome& outcome, Writer& writer) {
  for (const CollectedRun& run : outcome.runs) {
    if (belongs_to_another(run, outcome.runs)) continue;
    const auto workers = std::count_if(outcome.runs.begin(), outcome.runs.end(),
                                       [&](const auto& other) { return other.parent_run == run.run; });
    std::string text =
        "the trace of " + base_name(run.exe) + " (pid " + std::to_string(run.pid) + ") " + state_of(run);
    if (workers > 0)
      text += ", with " + std::to_string(workers) + (workers == 1 ? " forked worker" : " forked workers");
    writer.line(text + "; read it with");
    writer.command(outcome.analyze + " " + shell_quoted(run.folder + "/trace.jsonl.zst"));
  }
}

// "… no backend for <library> (version 2.6.0, …). Build one with <command> <library>": the library, else "".
std::string library_to_build_for(const std::string& line) {
  constexpr std::string_view kMarker = TT_BUILD_COMMAND;
  const std::size_t at = line.find(kMarker);
  if (at == std::string::npos || line.find(": no backend for ") == std::string::npos) return {};
  return line.substr(at + kMarker.size());
}

// The preload parts' lines are "<pid> <program>: …"; one that says "started" found its torch.
void say_why_none(const Outcome& outcome, Writer& writer) {
  if (outcome.disabled)
    return writer.line("no trace: TENSORTAP_DISABLE is set, which switches the probe off");
  if (!outcome.still_running.empty()) {
    return writer.line("no trace yet: the command ended, but processes that it left behind still run");
  }
  const bool started = std::any_of(
      outcome.probe_log.begin(), outcome.probe_log.end(),
      [](const std::string& line) { return line.find(": started backend ") != std::string::npos; });
  if (started && outcome.capture == "idle") {
    return writer.line("no trace: the probe was idle, and nobody ordered a capture (trace-ctl start)");
  }
  if (started && outcome.capture.compare(0, 9, "always-on") == 0) {
    return writer.line("no trace: always-on counts are shown by trace-ctl status while the job runs");
  }
  if (started && outcome.capture.compare(0, 6, "steps=") == 0) {
    return writer.line("no trace: the job ended before the first of the steps " + outcome.capture.substr(6));
  }
  if (outcome.probe_log.empty()) {
    return writer.line(
        "no trace: no process of the job loaded torch with the probe in it (a program that is statically "
        "linked, "
        "set-user-id, or started with a cleared environment can't be preloaded)");
  }
  writer.line(started ? "no trace: the probe started, but no run reached the collector at " + outcome.socket
                      : "no trace: torch was loaded, but the probe stayed disarmed");
  std::vector<std::string> lines;  // but for those that say_what_builds_a_backend says better
  std::copy_if(outcome.probe_log.begin(), outcome.probe_log.end(), std::back_inserter(lines),
               [](const std::string& line) { return library_to_build_for(line).empty(); });
  const std::size_t shown = std::min(lines.size(), kMaxLogLines);
  for (std::size_t i = 0; i < shown; ++i) writer.line("  " + lines[i]);
  if (shown < lines.size()) {
    writer.line("  … and " + std::to_string(lines.size() - shown) + " more lines like these");
  }
}

// A torch that no backend fits: the preload parts say which, and the command to build one stands last.
void say_what_builds_a_backend(const Outcome& outcome, Writer& writer) {
  std::vector<std::string> said;
  for (const std::string& line : outcome.probe_log) {
    const std::string library = library_to_build_for(line);
    if (library.empty() || std::find(said.begin(), said.end(), library) != said.end()) continue;
    said.push_back(library);
    const std::size_t version = line.find("(version ");
    writer.line("there is no backend for the torch " + library +
                (version == std::string::npos
                     ? ""
                     : " " + line.substr(version, line.find_first_of(",)", version) - version) + ")") +
                "; this builds one, then run again");
    writer.command(build_command(outcome.builder, library));
  }
}

}  // namespace

std::string build_command(const std::string& builder, const std::string& libtorch_cpu) {
  return shell_quoted(builder) + " --torch " + shell_quoted(libtorch_cpu);
}

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string summary(const Outcome& outcome) {
  Writer writer;
  if (!outcome.ask_error.empty()) {
    writer.line("the collector did not say what it has (" + outcome.ask_error + "); look for traces in " +
                (outcome.state.empty() ? "its state folder" : outcome.state + "/runs"));
  } else if (outcome.runs.empty()) {
    say_why_none(outcome, writer);
  } else {
    say_runs(outcome, writer);
  }
  say_what_builds_a_backend(outcome, writer);
  if (!outcome.still_running.empty() && !outcome.state.empty()) {
    writer.line(
        "processes of the job still run; the private collector goes on with them and keeps traces in " +
        outcome.state + "/runs");
  }
  return writer.take();
}

}  // namespace tensortap::probe
