#include "analyzers/cli/run_input.h"

#include <algorithm>
#include <filesystem>

namespace tensortap::analyzers {
namespace {

namespace fs = std::filesystem;

std::string trace_in(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"trace.jsonl.zst", "trace.jsonl"}) {
    if (fs::is_regular_file(folder / name, ignored)) return (folder / name).string();
  }
  return "";
}

std::vector<std::string> workers_of(const fs::path& folder) {
  std::vector<std::string> workers;
  std::error_code error;
  for (fs::directory_iterator it(folder / "workers", error), end; !error && it != end; it.increment(error)) {
    if (!trace_in(it->path()).empty()) workers.push_back(it->path().string());
  }
  std::sort(workers.begin(), workers.end());
  return workers;
}

}  // namespace

format::Result<RunInput> find_run(const std::string& argument) {
  RunInput input{argument, {}};
  std::error_code error;
  if (argument == "-" || !fs::is_directory(argument, error))
    return input;  // the reader says what is wrong with it
  input.trace = trace_in(argument);
  if (input.trace.empty()) {
    format::Error missing;
    missing.code = format::ErrorCode::kNotFound;
    missing.file = argument;
    missing.message =
        "the folder holds no trace.jsonl.zst and no trace.jsonl; name a run folder or a trace file";
    return missing;
  }
  input.workers = workers_of(argument);
  return input;
}

}  // namespace tensortap::analyzers
