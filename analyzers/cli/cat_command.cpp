// trace-analyze cat FILE…: the lines of a trace, or a part of them (analyzers/cut).
#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzers/cli/command.h"
#include "analyzers/cli/run_input.h"
#include "analyzers/cut/line_sink.h"
#include "analyzers/cut/trace_cut.h"
#include "analyzers/output/output_file.h"
#include "format/line_facts.h"

namespace tensortap::analyzers {
namespace {

constexpr const char* kFooter =
    R"(What is printed is lines as they are stored, not a valid stream of its own: spans may lack an end or a parent, the
terminal is mostly missing. The meta line always comes first, so a part is recognisable as one.

  --steps   the iterations by number (spans named step-000000000042): every line whose host time lies between start
            and end of one of them, both included, and the span_start and span_end of the iterations themselves.
            One that never ended lasts to the end of the trace.
  --from, --to
            every line whose host time lies between the two, both included. The unit is s, ms, us or ns; without one
            it is ns. Counted from the start of the capture.
  A line's host time is its start_ns (span_start) or timestamp_ns (op, memory, device_memory, terminal). What began
  before the range is not in it. Lines of other kinds go with the line before them that has a host time; the ends
  of spans, and device intervals, which have a clock of their own, only if their span began in the range.
  --kind    only these kinds of records (and meta). Given with a range: of the lines in it.

A line of a part is checked as `trace-analyze validate` checks single lines (kind, fields, types, UTF-8): one that is
no record of trace/10 is left out and counted, and so is a line whose kind cannot be told, where one is read. Lines
that were not asked for are not checked further, rules between lines never.
Without any of these the file is printed as it is, but for the blanks that pad its meta line, and nothing in it is
checked but that its first line is a meta record. Of trace files of
collectord only the needed part is read; anything else (.jsonl, other .zst, .gz, a pipe) is read from end to end, and
for --steps a pipe is first copied to a temporary file.

Examples:
  trace-analyze cat run.jsonl.zst > run.jsonl
  trace-analyze cat --steps 3:5 run.jsonl.zst
  trace-analyze cat --from 1.5s --to 1700ms --kind op,memory run.jsonl.zst | jq .op_name
  trace-analyze cat --steps 100 -o step.jsonl.zst run.jsonl.zst

Exit codes:
  0  everything that was asked for was printed (also when there is no such step: said on standard error)
  1  the output could not be written
  2  wrong usage, also when the output would replace the trace
  3  not a trace, or a part of it could not be read; what was good is still printed.
     With --strict also for a trace that is cut off, and for lines that were left out as bad)";

std::string count_of(std::uint64_t count, const char* what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

// The ending by which other tools would take a file for a compressed one; "" if there is none.
std::string compression_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  const std::string as_given = ending;
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto is_it = [&](std::string_view known) { return ending == known; };
  constexpr std::string_view kEndings[] = {".zst", ".zstd", ".gz", ".bz2", ".xz", ".lz4"};
  return std::any_of(std::begin(kEndings), std::end(kEndings), is_it) ? as_given : "";
}

class Cat final : public Command {
 public:
  const char* name() const override { return "cat"; }
  const char* purpose() const override {
    return "prints the lines of a trace, or those of some steps, times, kinds";
  }
  void set_up(CLI::App& app) override;
  int run() override;

 private:
  bool parse_request();
  bool check_output() const;
  bool has(const std::string& option) const { return app_->get_option(option)->count() != 0; }
  std::vector<std::string> kind_names() const;
  int cut(const std::string& file, LineSink& sink);
  int judge(const std::string& name, const CutReport& report) const;

  std::vector<std::string> files_;
  const CLI::App* app_ = nullptr;
  std::string steps_, from_, to_, output_;
  std::vector<std::string> kinds_;  // as given: lists
  bool strict_ = false;
  bool is_trace_ = false;  // any of the files
  CutRequest request_;
};

void Cat::set_up(CLI::App& app) {
  app_ = &app;
  app.add_option("FILE", files_, "trace files, run folders, or - for standard input")->required();
  app.add_option("--steps", steps_, "iterations A:B, both included; A, A: or :B")->type_name("A:B");
  app.add_option("--from", from_, "from this host time on, e.g. 1.5s, 200ms, 3us, 1500 (ns)")->type_name("T");
  app.add_option("--to", to_, "up to this host time")->type_name("T");
  app.add_option("--kind", kinds_, "only these kinds of records, e.g. op,memory")
      ->allow_extra_args(false)  // the next word is a FILE
      ->type_name("KIND,…");
  app.add_option("-o,--output", output_, "write here; NAME.zst becomes a trace file with a seek table")
      ->type_name("NAME");
  app.add_flag("--strict", strict_, "fail on a trace that is cut off, and on bad lines");
  app.footer(kFooter);
}

// Says what is wrong with the options.
bool Cat::parse_request() {
  if (has("--steps") && !(request_.steps = parse_steps(steps_))) {
    say("--steps wants numbers A:B with A not above B, or A, A:, :B; not '" + steps_ + "'");
    return false;
  }
  NumberRange times;
  for (const auto& [text, option, to] :
       {std::tuple(&from_, "--from", &times.first), std::tuple(&to_, "--to", &times.last)}) {
    if (!has(option)) continue;
    const auto time = parse_time(*text);
    if (!time) {
      say(std::string(option) + " wants a time such as 1.5s, 200ms, 3us or 1500 (nanoseconds); not '" +
          *text + "'");
      return false;
    }
    *to = *time;
    request_.times = times;
  }
  if (times.first > times.last) {
    say("--from " + from_ + " is after --to " + to_);
    return false;
  }
  for (const std::string& name : kind_names()) {
    const auto kind = format::record_kind_from_name(name);
    if (!kind) {
      std::string all;
      for (std::size_t i = 0; i < format::kRecordKinds; ++i)
        all +=
            (i == 0 ? "" : ", ") + std::string(format::record_kind_name(static_cast<format::RecordKind>(i)));
      say("--kind wants some of " + all + "; not '" + name + "'");
      return false;
    }
    request_.kinds.push_back(*kind);
  }
  return true;
}

// CLI11 drops empty values; here they are names like others, and wrong ones.
std::vector<std::string> Cat::kind_names() const {
  std::vector<std::string> names;
  for (const std::string& list : app_->get_option("--kind")->results()) {
    for (std::size_t from = 0, comma = 0; comma != std::string::npos; from = comma + 1) {
      comma = list.find(',', from);
      names.push_back(list.substr(from, comma - from));
    }
  }
  return names;
}

// Says what is wrong with it, before anything is opened.
bool Cat::check_output() const {
  if (has("--output") && output_.empty()) {
    say("-o wants the name of a file, or - for standard output");
    return false;
  }
  const std::string compression = compression_of(output_);
  if (!compression.empty() && !output_.ends_with(".zst")) {
    say("-o " + output_ + ": only .zst is compressed, not " + compression + "; name it NAME.zst or plain");
    return false;
  }
  if (output_.ends_with(".zst") && files_.size() > 1) {
    say("-o " + output_ + ": a trace file holds one trace; name one FILE, or a plain output");
    return false;
  }
  for (const std::string& file : files_) {
    const auto input = find_run(file);
    if (!input || !would_replace(output_, input->trace)) continue;
    say(replacement_text(input->trace));
    return false;
  }
  return true;
}

int Cat::run() {
  if (!parse_request() || !check_output()) return kExitUsage;
  std::signal(SIGPIPE, SIG_DFL);  // `| head` ends it without a word
  auto sink = make_line_sink(output_);
  if (!sink) {
    say(sink.error().to_string());
    return kExitCannotWrite;
  }
  int code = kExitOk;
  for (const std::string& file : files_) {
    const int one = cut(file, **sink);
    if (one == kExitCannotWrite) return one;
    code = std::max(code, one);
  }
  if (!is_trace_) return code;  // and there is no output file
  if (const format::Status status = (*sink)->close(); !status) {
    say(status.error().to_string());
    return kExitCannotWrite;
  }
  return code;
}

int Cat::cut(const std::string& file, LineSink& sink) {
  const auto input = find_run(file);
  if (!input) {
    say(input.error().to_string());
    return kExitUnreadable;
  }
  const auto report = cut_trace(input->trace, request_, sink);
  if (!report) {
    say(report.error().to_string());
    return kExitUnreadable;
  }
  is_trace_ = is_trace_ || report->is_trace;
  return judge(file == "-" ? "standard input" : input->trace, *report);
}

int Cat::judge(const std::string& name, const CutReport& report) const {
  if (report.unwritten) {
    say(report.unwritten->to_string());
    return kExitCannotWrite;
  }
  for (const format::Error& error : report.errors) say(error.to_string());
  if (!report.is_trace) {
    if (report.errors.empty()) say(name + " is not a trace: its first record is no meta record");
    return kExitUnreadable;
  }
  if (request_.steps && report.steps_found == 0) {
    say(name + " has no step " + steps_ +
        (report.steps_seen ? "; its steps are " + std::to_string(report.steps_seen->first) + " to " +
                                 std::to_string(report.steps_seen->last)
                           : "; it has no spans of steps"));
  }
  if (report.bad_lines != 0)
    say(name + ": " + count_of(report.bad_lines, "bad line") + " left out: no records of trace/10");
  if (report.truncated) say(name + " is cut off at its end; everything before was read");
  const bool flawed = report.bad_lines != 0 || report.truncated;
  return !report.errors.empty() || (strict_ && flawed) ? kExitUnreadable : kExitOk;
}

}  // namespace

std::unique_ptr<Command> make_cat() { return std::make_unique<Cat>(); }

}  // namespace tensortap::analyzers
