// trace-analyze validate FILE…: is each trace readable and structurally sound, exactly as the format says.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzers/cli/command.h"
#include "analyzers/cli/run_input.h"
#include "analyzers/render/json.h"
#include "analyzers/validation/validation.h"

namespace tensortap::analyzers {
namespace {

constexpr int kExitUsageOfValidate = 64;  // EX_USAGE and EX_IOERR of sysexits.h: 1 and 2 are verdicts here
constexpr int kExitCannotWriteVerdict = 74;

constexpr const char* kFooter = R"(Examples:
  trace-analyze validate run.jsonl.zst
  trace-analyze validate --strict bundle/trace.jsonl && echo clean
  trace-analyze validate --json runs/*/trace.jsonl.zst | jq '.files[] | select(.structurally_valid|not) | .file'

A run folder stands for its trace and those of its workers. Of each code 10000 issues are listed, all are
counted.

Exit codes (of several files the greatest):
  0  readable and structurally valid
  1  valid with warnings, only with --strict
  2  structurally invalid
  3  unreadable: a bad line, a rule between records broken, or cut off
 64  wrong usage
 74  the verdict could not be written)";

class Validate final : public Command {
 public:
  const char* name() const override { return "validate"; }
  const char* purpose() const override {
    return "is a trace readable and structurally sound, and if not, where";
  }
  int usage_exit() const override { return kExitUsageOfValidate; }
  void set_up(CLI::App& app) override {
    app.add_option("FILE", files_, "trace.jsonl, trace.jsonl.zst, - for standard input, or a run folder")
        ->required();
    app.add_flag("--json", json_, "print one JSON document (schema tensortap/validation/1)");
    app.add_flag("--strict", strict_, "exit 1 when there are warnings");
    app.footer(kFooter);
  }

  int run() override {
    int exit_code = kExitOk;
    boost::json::array documents;
    for (const std::string& file : files_) {
      for (const Validation& validation : validate_input(file)) {
        exit_code = std::max(exit_code, verdict(validation));
        if (json_) {
          documents.push_back(validation_json(validation));
        } else {
          std::cout << validation_text(validation);
        }
      }
    }
    if (json_) {
      std::cout << report_json({{"schema", kValidationSchema}, {"files", std::move(documents)}});
    }
    return finish_output(exit_code) == exit_code ? exit_code : kExitCannotWriteVerdict;
  }

 private:
  // A run folder holds several traces.
  static std::vector<Validation> validate_input(const std::string& argument) {
    const auto input = find_run(argument);
    if (!input) return {unreadable(argument, input.error())};
    std::vector<Validation> validations = {validate_trace(input->trace)};
    for (const std::string& worker : input->workers) {
      for (Validation& validation : validate_input(worker)) validations.push_back(std::move(validation));
    }
    return validations;
  }

  int verdict(const Validation& validation) const {
    if (validation.read_error) return 3;
    if (!validation.health.structurally_valid) return 2;
    return strict_ && validation.health.warnings != 0 ? 1 : 0;
  }

  std::vector<std::string> files_;
  bool json_ = false;
  bool strict_ = false;
};

}  // namespace

std::unique_ptr<Command> make_validate() { return std::make_unique<Validate>(); }

}  // namespace tensortap::analyzers
