#include "probe/attach/attach_report.h"

#include <cstdio>

#include "probe/launch/flat_json.h"
#include "probe/launch/summary.h"

namespace tensortap::probe {
namespace {

constexpr std::size_t kMaxLogLines = 5;

std::string seconds(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f s", static_cast<double>(ns) / 1e9);
  return text;
}

void line(std::string& out, const std::string& text) { out += "trace-attach: " + text + "\n"; }

std::string job_words(const AttachReport& report) {
  return report.program + " (pid " + std::to_string(report.pid) + ", torch " + report.torch + ")";
}

void member(std::string& out, const char* name, const std::string& text) {
  if (!text.empty()) out += ",\"" + std::string(name) + "\":" + json_quoted(text);
}

}  // namespace

std::string text_report(const AttachReport& report) {
  std::string out;
  for (const std::string& note : report.notes) line(out, "note: " + note);
  if (report.code != AttachExit::kAttached) {
    line(out, report.reason);
    const std::size_t shown = std::min(report.probe_log.size(), kMaxLogLines);
    for (std::size_t i = 0; i < shown; ++i) line(out, "  " + report.probe_log[i]);
    if (!report.remedy.empty()) line(out, "what to do: " + report.remedy);
    return out;
  }
  if (report.dry_run) {
    line(out, job_words(report) + " can be attached to, with the backend for " + report.backend);
    return out;
  }
  line(out, "attached to " + job_words(report) + "; thread " + std::to_string(report.thread) +
                " paused for " + seconds(report.paused_ns) + ", the others went on");
  if (!report.state.empty())
    line(out, "a private collector runs until the job ends and keeps traces in " + report.state + "/runs");
  line(out, "read the trace, now or when the job has ended, with");
  out += "  " + report.analyze + " " + shell_quoted(report.folder + "/trace.jsonl.zst") + "\n";
  return out;
}

std::string json_report(const AttachReport& report) {
  const bool good = report.code == AttachExit::kAttached;
  std::string out = "{\"exit\":" + std::to_string(static_cast<int>(report.code));
  out += std::string(",\"attached\":") + (good && !report.dry_run ? "true" : "false");
  out += ",\"pid\":" + std::to_string(report.pid);
  member(out, "reason", report.reason);
  member(out, "remedy", report.remedy);
  member(out, "command", report.command);
  member(out, "torch", report.torch);
  member(out, "backend", report.backend);
  if (report.stops != 0) {
    out += ",\"thread\":" + std::to_string(report.thread) + ",\"stops\":" + std::to_string(report.stops);
    out += ",\"paused_ns\":" + std::to_string(report.paused_ns);
    out += ",\"longest_pause_ns\":" + std::to_string(report.longest_pause_ns);
  }
  member(out, "socket", report.socket);
  member(out, "state", report.state);
  member(out, "run", report.run);
  if (!report.folder.empty()) member(out, "trace", report.folder + "/trace.jsonl.zst");
  const auto list = [&out](const char* name, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    out += ",\"" + std::string(name) + "\":[";
    for (std::size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? "" : ",") + json_quoted(lines[i]);
    out += "]";
  };
  list("notes", report.notes);
  list("probe_log", report.probe_log);
  return out + "}\n";
}

}  // namespace tensortap::probe
