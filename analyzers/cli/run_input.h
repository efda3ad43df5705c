// What the argument RUN of trace-analyze stands for.
#pragma once

#include <string>
#include <vector>

#include "format/result.h"

namespace tensortap::analyzers {

struct RunInput {
  std::string trace;                 // path of the trace, or "-"
  std::vector<std::string> workers;  // folders of forked workers' runs, sorted; of a run folder only
};

// A file or "-" is itself; a run folder is its trace.jsonl.zst, else its trace.jsonl.
format::Result<RunInput> find_run(const std::string& argument);

}  // namespace tensortap::analyzers
