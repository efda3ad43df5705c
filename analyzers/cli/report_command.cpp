// trace-analyze RUN: the report, for people or as JSON. Exit codes are part of its interface (see kFooter).
#include <iostream>
#include <map>
#include <string>

#include "analyzers/analysis.h"
#include "analyzers/cli/command.h"
#include "analyzers/cli/run_input.h"
#include "analyzers/cli/terminal.h"
#include "analyzers/render/json.h"
#include "analyzers/render/table.h"
#include "analyzers/render/text.h"
#include "format/json_text.h"
#include "format/trace_index.h"
#include "format/trace_reader.h"

namespace tensortap::analyzers {
namespace {

constexpr const char* kFooter = R"(Examples:
  trace-analyze run.jsonl.zst                  the report of a trace
  trace-analyze ~/.local/state/tensortap/runs/20260115-093000-train-71-0a1b2c3d
                                               of a run folder, with its workers
  trace-analyze --sort total --top 30 run.jsonl
  trace-analyze --json run.jsonl | jq '.timing.operators.rows[0]'
  zcat old.jsonl.gz | trace-analyze -

Exit codes:
  0  the report was printed (what was wrong with some lines is said on standard error)
  1  the report could not be written
  2  wrong usage
  3  not a trace, or not readable to its end; what was good is still reported.
     With --strict also for any bad line and for a trace that is cut off)";

struct Options {
  std::string run;
  bool json = false;
  bool strict = false;
  std::size_t top = 10;
  SortBy sort = SortBy::kSelf;
  std::string colour = "auto";
};

void declare(CLI::App& app, Options& options) {
  static const std::map<std::string, SortBy> kSorts = {
      {"self", SortBy::kSelf}, {"total", SortBy::kTotal}, {"calls", SortBy::kCalls}};
  app.add_option("RUN", options.run, "trace.jsonl, trace.jsonl.zst, - for standard input, or a run folder");
  app.add_flag("--json", options.json, "print the whole report as JSON");
  app.add_option("--top", options.top, "rows per table (default 10)")->check(CLI::Range(1, 1000000));
  app.add_option("--sort", options.sort,
                 "order of operators, modules and ranges: self, total or calls (default self)")
      ->transform(CLI::Transformer(kSorts).description("self|total|calls"))
      ->type_name("KEY");
  app.add_option("--color,--colour", options.colour, "auto, always or never (default auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  app.add_flag("--strict", options.strict, "fail on any bad line and on a trace that is cut off");
  app.footer(kFooter);
}

void add_workers(boost::json::object& report, const std::vector<std::string>& workers) {
  if (workers.empty()) return;
  boost::json::array folders;
  for (const std::string& worker : workers)
    folders.push_back(boost::json::object{{"folder", format::well_formed_utf8(worker)}});
  report["workers"] = std::move(folders);
}

std::string workers_text(const std::vector<std::string>& workers) {
  if (workers.empty()) return "";
  std::string out = "\nWorkers  forked by this job; each has its own report\n";
  for (const std::string& worker : workers) out += "  trace-analyze " + printable(worker) + '\n';
  return out;
}

// Says what was wrong with the input; the exit code that follows from it.
int judge(const Options& options, const std::string& trace, const format::TraceReader& reader,
          const format::ReadReport& read) {
  if (!read.is_trace) {
    const std::string name = trace == "-" ? "standard input" : trace;
    if (!read.errors.empty()) {
      say("not a trace: " + read.errors.front().to_string());
    } else if (reader.stream_error()) {
      say("not a trace: " + reader.stream_error()->to_string());
    } else if (read.records == 0) {
      say(name + " is not a trace: it holds no records");
    } else {
      say(name + " is not a trace: its first record is no meta record of a trace/10 or trace/9 stream");
    }
    return kExitUnreadable;
  }
  if (read.bad_lines != 0 && !read.errors.empty()) {
    say(std::to_string(read.bad_lines) + (read.bad_lines == 1 ? " bad line: " : " bad lines, the first: ") +
        read.errors.front().to_string());
  }
  if (reader.stream_error()) {
    say("reading stopped: " + reader.stream_error()->to_string());
    return kExitUnreadable;
  }
  if (const format::Status meta = format::check_meta_line(trace); !meta) {
    say(meta.error().to_string());
    if (options.strict) return kExitUnreadable;
  }
  if (read.truncated) say(trace + " is cut off at its end; everything before is reported");
  return options.strict && (read.bad_lines != 0 || read.truncated) ? kExitUnreadable : kExitOk;
}

int analyze(const Options& options) {
  const auto input = find_run(options.run);
  if (!input) {
    say(input.error().to_string());
    return kExitUnreadable;
  }
  auto reader = format::TraceReader::open(input->trace);
  if (!reader) {
    say(reader.error().to_string());
    return kExitUnreadable;
  }
  Analysis analysis;
  format::ReadReport read;
  {
    Progress progress;
    read = analysis.consume(*reader, [&](std::uint64_t records) { progress.show(records); });
  }
  const int exit_code = judge(options, input->trace, *reader, read);
  if (read.records == 0) return exit_code == kExitOk ? kExitUnreadable : exit_code;

  boost::json::object report = analysis.report();
  if (options.json) {
    add_workers(report, input->workers);
    std::cout << report_json(report);
  } else {
    TextOptions text;
    text.top = options.top;
    text.sort = options.sort;
    text.width = terminal_width();
    text.colour = wants_colour(options.colour);
    std::cout << render_text(report, text) << workers_text(input->workers);
  }
  return finish_output(exit_code);
}

class Report final : public Command {
 public:
  const char* name() const override { return "report"; }
  const char* purpose() const override { return "the report (also without the word)"; }
  void set_up(CLI::App& app) override { declare(app, options_); }
  int run() override {
    if (options_.run.empty()) {
      say("which run? Give a trace file, a run folder or -; trace-analyze --help shows more");
      return kExitUsage;
    }
    return analyze(options_);
  }

 private:
  Options options_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace tensortap::analyzers
