// trace-analyze summary|overview TRACE: the candle-graph documents of a trace, all or nothing: a trace with
// any fault that the format forbids has no document. Exit codes are part of the interface (see kFooter).
#include <filesystem>
#include <ostream>
#include <string>

#include "analyzers/candle/documents.h"
#include "analyzers/cli/command.h"
#include "analyzers/cli/run_input.h"
#include "analyzers/cli/strict_read.h"
#include "analyzers/output/output_file.h"

namespace tensortap::analyzers {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(The trace is read as strictly as the format is: one bad line, a cut-off end or a
broken rule between records refuses all of it. `trace-analyze validate` lists what is wrong.
Nsight reports are not read: the `gpu` member is that of a trace without them.

Exit codes:
  0  the document was written
  1  the document could not be written
  2  with --require-valid: it was written, but the trace is not valid and complete
  3  not readable as a whole, or two nodes of its graph would have one id; nothing was written
 64  wrong usage)";

constexpr int kExitNotValid = 2;
constexpr int kExitUsageOfDocuments = 64;  // EX_USAGE of sysexits.h: 2 is a verdict here

using WriteDocument = void (*)(candle::JsonOut&, const candle::Evidence&, const candle::DocumentInput&);

class CandleDocument final : public Command {
 public:
  CandleDocument(const char* name, const char* purpose, WriteDocument write_document)
      : name_(name), purpose_(purpose), write_(write_document) {}

  const char* name() const override { return name_; }
  const char* purpose() const override { return purpose_; }

  void set_up(CLI::App& app) override {
    app.add_option("TRACE", input_.requested_path,
                   "trace.jsonl, trace.jsonl.zst, - for standard input, or a folder that holds one")
        ->required();
    output_option_ =
        app.add_option("-o,--output", output_, "write to this file; - is standard output")->type_name("FILE");
    app.add_flag("--require-valid", require_valid_,
                 "exit with 2 after writing, unless the trace is valid and complete");
    app.footer(kFooter);
  }

  int usage_exit() const override { return kExitUsageOfDocuments; }

  int run() override {
    if (output_option_->count() != 0 && output_.empty()) {
      say("-o wants the name of a file, or - for standard output");
      return kExitUsageOfDocuments;
    }
    const auto found = find_run(input_.requested_path);
    if (!found) return refuse_trace(found.error(), input_.requested_path);
    input_.trace_path = found->trace;
    if (would_replace(output_, input_.trace_path)) {
      say(replacement_text(input_.trace_path));
      return kExitUsageOfDocuments;
    }
    candle::Evidence evidence;
    const format::Status status =
        read_strictly(input_.trace_path, evidence, [&] { return evidence.finish(); });
    if (!status) return refuse_trace(status.error(), input_.trace_path);
    tell_what_is_not_read();
    tell_what_is_cut(evidence.health());
    const int code = !require_valid_ || evidence.valid_and_complete() ? kExitOk : kExitNotValid;
    if (code != kExitOk) {
      say(input_.trace_path +
          (evidence.health().structurally_valid ? " is a failed capture" : " is structurally invalid"));
    }
    return write(evidence, code);
  }

 private:
  int write(const candle::Evidence& evidence, int code) {
    std::error_code ignored;  // opening says what is wrong
    const fs::path folder = fs::path(output_).parent_path();
    if (!folder.empty()) fs::create_directories(folder, ignored);
    const auto file = OutputFile::open(output_);
    if (!file) return cannot_write(file.error());
    OutputBuffer buffer(**file);
    std::ostream stream(&buffer);
    {
      candle::JsonOut json(stream);
      write_(json, evidence, input_);
    }
    const format::Status status = (*file)->close();
    return status ? code : cannot_write(status.error());
  }

  static int cannot_write(const format::Error& error) {
    say("the document could not be written: " + error.to_string());
    return kExitCannotWrite;
  }

  // Bundles and Nsight reports beside the trace belong to it for the candle-graph crate.
  void tell_what_is_not_read() const {
    const fs::path folder = fs::path(input_.trace_path).parent_path();
    std::error_code ignored;
    for (const char* name : {"bundle.json", "evidence.json", "nsight"}) {
      if (!fs::exists(folder / name, ignored)) continue;
      say("note: " + (folder / name).string() + " is not read; the document is of " + input_.trace_path +
          " alone");
    }
  }

  static void tell_what_is_cut(const format::Health& health) {
    if (!health.cut()) return;
    say("the document lists " + std::to_string(health.issues.size()) + " of " +
        std::to_string(health.errors + health.warnings) + " health issues");
  }

  const char* name_;
  const char* purpose_;
  WriteDocument write_;
  candle::DocumentInput input_;
  std::string output_;
  const CLI::Option* output_option_ = nullptr;
  bool require_valid_ = false;
};

}  // namespace

std::unique_ptr<Command> make_summary() {
  return std::make_unique<CandleDocument>("summary", "the trace's candle-graph/summary/6 document (JSON)",
                                          candle::write_summary);
}

std::unique_ptr<Command> make_overview() {
  return std::make_unique<CandleDocument>("overview", "the trace's candle-graph/overview/2 document (JSON)",
                                          candle::write_overview);
}

}  // namespace tensortap::analyzers
