// trace-ctl: the probes of a collector, and orders to them.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "probe/launch/always_on.h"
#include "probe/launch/ctl_client.h"
#include "probe/launch/ctl_options.h"
#include "probe/launch/flat_json.h"
#include "probe/launch/places.h"
#include "probe/launch/summary.h"

namespace tensortap::probe {
namespace {

using format::ErrorCode;

constexpr std::size_t kMaxCommand = 200;
constexpr std::chrono::milliseconds kPoll{200};
constexpr int kAnswerMs = 10'000;
constexpr std::chrono::seconds kObeyPatience{15};  // until a probe says what it made of an order

int fail(const CtlOptions& options, const format::Error& error) {
  const bool nobody = error.code == ErrorCode::kNotFound;
  std::cerr << "trace-ctl: " << error.message;
  if (nobody) {
    std::cerr << "; no collector listens there: start one with collectord --listen " << options.socket
              << ", or name its socket with --socket";
  }
  std::cerr << "\n";
  return error.code == ErrorCode::kRejected ? kCtlFailed : kCtlNoCollector;
}

// A job's words may hold anything; a terminal must not obey them.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}

std::string command_of(const ConnectedProbe& probe) {
  std::string text;
  for (const std::string& word : probe.command)
    text += (text.empty() ? "" : " ") + shell_quoted(printable(word));
  if (text.empty()) text = printable(probe.exe);
  if (text.size() > kMaxCommand) text = text.substr(0, kMaxCommand - 3) + "...";
  return text;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    std::cout << line << "\n";
  }
}

void print_list(const std::vector<ConnectedProbe>& probes) {
  std::vector<std::vector<std::string>> rows = {
      {"PID", "STATE", "STEP", "RINGS", "DROPPED", "RANK", "TORCH", "COMMAND"}};
  for (const ConnectedProbe& probe : probes) {
    const std::string rank = probe.rank.empty() || probe.world_size.empty()
                                 ? or_dash(probe.rank)
                                 : probe.rank + "/" + probe.world_size;
    rows.push_back({std::to_string(probe.pid), probe.state, or_dash(probe.step), or_dash(probe.rings),
                    or_dash(probe.dropped), rank, or_dash(probe.torch), command_of(probe)});
  }
  print_table(rows);
}

class Client {
 public:
  explicit Client(const CtlOptions& options) : options_(options) {}

  int run() {
    switch (options_.command) {
      case CtlOptions::Command::kList:
      case CtlOptions::Command::kStatus:
        return show();
      case CtlOptions::Command::kStart:
      case CtlOptions::Command::kStop:
        return order();
    }
    return kCtlUsage;
  }

 private:
  CtlRequest request(const std::string& command) const {
    return {.socket = options_.socket,
            .command = command,
            .launch = options_.launch,
            .pid = options_.pid,
            .rank = options_.rank,
            .name = options_.name,
            .capture = options_.capture,
            .limit_ms = kAnswerMs};
  }

  int show() const {
    const auto probes = ask_probes(request("list"));
    if (!probes) return fail(options_, probes.error());
    if (options_.json) {
      for (const ConnectedProbe& probe : *probes) std::cout << probe.json << "\n";
    } else if (probes->empty()) {
      std::cerr << "trace-ctl: no probe is connected to " << options_.socket << (chosen() ? " that fits" : "")
                << "\n";
    } else if (options_.command == CtlOptions::Command::kList) {
      print_list(*probes);
    } else {
      return print_status(*probes);
    }
    return probes->empty() && chosen() ? kCtlFailed : kCtlDone;
  }

  int print_status(const std::vector<ConnectedProbe>& probes) const {
    const auto runs =
        ask_collector({.socket = options_.socket, .command = "runs", .launch = {}, .limit_ms = kAnswerMs});
    if (!runs) return fail(options_, runs.error());
    for (const ConnectedProbe& probe : probes) {
      std::cout << "pid " << probe.pid << "  " << command_of(probe) << "\n  state    " << probe.state;
      if (!probe.step.empty()) std::cout << ", step " << probe.step;
      std::cout << "\n  torch    " << or_dash(probe.torch) << "\n";
      if (!probe.rank.empty())
        std::cout << "  rank     " << probe.rank << " of " << or_dash(probe.world_size) << "\n";
      if (!probe.rings.empty()) {
        std::cout << "  rings    " << probe.rings << ", " << or_dash(probe.dropped) << " records dropped\n";
      }
      if (!probe.error.empty()) std::cout << "  refused  " << printable(probe.error) << "\n";
      for (const CollectedRun& run : *runs) {
        if (run.pid == probe.pid)
          std::cout << "  run      " << run.state << "  " << printable(run.folder) << "\n";
      }
      std::cout << always_on_table(probe.always_on);
    }
    return kCtlDone;
  }

  bool chosen() const {
    return !options_.pid.empty() || !options_.rank.empty() || !options_.name.empty() ||
           !options_.launch.empty();
  }

  // Which probes an order goes to. Several only when the user said so.
  int choose(std::vector<ConnectedProbe>& probes) const {
    auto found = ask_probes(request("list"));
    if (!found) return fail(options_, found.error());
    probes = std::move(*found);
    if (probes.empty()) {
      std::cerr << "trace-ctl: no probe is connected to " << options_.socket << (chosen() ? " that fits" : "")
                << "; trace-ctl list shows who is\n";
      return kCtlFailed;
    }
    if (probes.size() > 1 && !options_.all && !chosen()) {
      std::cerr << "trace-ctl: there are " << probes.size()
                << " probes: choose with --pid, --rank, --name or --launch, or take --all\n";
      print_list(probes);
      return kCtlUsage;
    }
    return kCtlDone;
  }

  int order() {
    std::vector<ConnectedProbe> probes;
    if (const int code = choose(probes); code != kCtlDone) return code;
    const bool start = options_.command == CtlOptions::Command::kStart;
    std::map<pid_t, std::string> runs_before;
    for (const ConnectedProbe& probe : probes) runs_before[probe.pid] = probe.last_run;
    auto told = ask_probes(request(start ? "start" : "stop"));
    if (!told) return fail(options_, told.error());
    return follow(*told, runs_before, start);
  }

  // Until every probe that was told has done what was asked of it.
  int follow(const std::vector<ConnectedProbe>& told, const std::map<pid_t, std::string>& runs_before,
             bool start) {
    const auto begin = std::chrono::steady_clock::now();
    std::map<pid_t, Progress> progress;
    for (const ConnectedProbe& probe : told) progress[probe.pid].was = probe.state;
    for (;;) {
      const auto now = ask_probes({.socket = options_.socket, .command = "list", .limit_ms = kAnswerMs});
      if (!now) return fail(options_, now.error());
      bool pending = false;
      for (auto& [pid, state] : progress) {
        const auto probe =
            std::find_if(now->begin(), now->end(), [pid = pid](const auto& p) { return p.pid == pid; });
        look(pid, probe == now->end() ? nullptr : &*probe, runs_before, start, state);
        pending = pending || !state.done;
      }
      const auto spent = std::chrono::steady_clock::now() - begin;
      if (!pending) break;
      if (!options_.wait && spent > kObeyPatience) {
        for (auto& [pid, state] : progress) {
          if (!state.done) state.fault = "did not answer within 15 s; is it stopped?";
        }
        break;
      }
      show_progress(progress, *now);
      std::this_thread::sleep_for(kPoll);
    }
    end_progress();
    return tell(progress, start);
  }

  struct Progress {
    std::string was, run, fault;
    bool begun = false, done = false;
  };

  void look(pid_t pid, const ConnectedProbe* probe, const std::map<pid_t, std::string>& runs_before,
            bool start, Progress& state) const {
    if (state.done) return;
    if (probe == nullptr) {  // the job ended
      state.done = true;
      if (start && !state.begun) state.fault = "ended before the capture began";
      return;
    }
    if (start && !probe->error.empty() && !state.begun) {
      state.fault = printable(probe->error);
      state.done = true;
      return;
    }
    const auto before = runs_before.find(pid);
    const bool is_new = before == runs_before.end() || probe->last_run != before->second;
    if (start && !probe->last_run.empty() && is_new) {
      state.run = probe->last_run;
      state.begun = true;
    }
    if (!start) {
      if (state.was != "idle" && state.was != "always-on") state.run = probe->last_run;
      state.done = is_over(*probe);
    } else if (!options_.wait) {
      state.done = state.begun || probe->state == "watching" || probe->state == "always-on";
    } else {
      state.done = state.begun && is_over(*probe);
    }
  }

  static bool is_over(const ConnectedProbe& probe) {
    return probe.run.empty() && (probe.state == "idle" || probe.state == "always-on");
  }

  void show_progress(const std::map<pid_t, Progress>& progress, const std::vector<ConnectedProbe>& now) {
    if (!::isatty(STDERR_FILENO) || options_.json) return;
    std::string text;
    for (const auto& [pid, state] : progress) {
      const auto probe =
          std::find_if(now.begin(), now.end(), [pid = pid](const auto& p) { return p.pid == pid; });
      if (state.done || probe == now.end()) continue;
      text += (text.empty() ? "" : ", ") + std::to_string(pid) + " " + probe->state +
              (probe->step.empty() ? "" : " step " + probe->step);
    }
    std::cerr << "\r\x1b[K" << text.substr(0, 100) << std::flush;
    shown_ = true;
  }
  void end_progress() const {
    if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  }

  int tell(const std::map<pid_t, Progress>& progress, bool start) const {
    int code = kCtlDone;
    const auto runs =
        ask_collector({.socket = options_.socket, .command = "runs", .launch = {}, .limit_ms = kAnswerMs});
    if (!runs) return fail(options_, runs.error());
    const auto analyze = find_program("trace-analyze");
    for (const auto& [pid, state] : progress) {
      if (!state.fault.empty()) {
        std::cerr << "trace-ctl: process " << pid << ": " << state.fault << "\n";
        code = kCtlFailed;
        continue;
      }
      const auto run = std::find_if(runs->begin(), runs->end(), [run = state.run](const auto& r) {
        return !run.empty() && r.run == run;
      });
      if (run == runs->end()) {
        std::cout << "process " << pid << ": "
                  << (start                 ? "ordered"
                      : state.was == "idle" ? "was idle"
                                            : "stopped")
                  << "\n";
        continue;
      }
      const bool failed = run->state == "failed";
      std::cout << "process " << pid << ": trace " << run->state
                << (failed && !run->reason.empty() ? " (" + printable(run->reason) + ")" : "") << "\n  "
                << shell_quoted(analyze ? *analyze : "trace-analyze") << " "
                << shell_quoted(run->folder + "/trace.jsonl.zst") << "\n";
    }
    return code;
  }

  const CtlOptions& options_;
  bool shown_ = false;
};

}  // namespace
}  // namespace tensortap::probe

int main(int argc, char** argv) {
  const auto parsed = tensortap::probe::parse_ctl_options(argc, argv);
  if (parsed.exit_code) {
    (*parsed.exit_code == 0 ? std::cout : std::cerr) << parsed.text;
    return *parsed.exit_code;
  }
  return tensortap::probe::Client(parsed.options).run();
}
