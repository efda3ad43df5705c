// What the parts of `ttjob` share: its options, how it dies on request, and what it says about itself.
//
// ttjob is a real libtorch program that knows nothing of tensortap: the tests run it under the probe and
// compare the trace with what the program says it does (`--describe`) and with what PyTorch's own profiler
// counts (`--counts`).
//
//   ttjob cnn --steps 10                       trains, checks that the loss fell, exits 0 (1 if it did not
//   fall) ttjob mlp --steps 10 --kill-step 7 --how kill ttjob cnn --steps 3 --counts counts.json   the same
//   under PyTorch's profiler; writes operator counts
//
// Thread rules: options are read-only after parsing. No torch header here: main.cpp compiles quickly.
#pragma once

#include <cstdint>
#include <string>

namespace ttjob {

struct Options {
  int steps = 0;  // 0: the job's own default
  int batch = 32;
  int kill_step = -1;  // die in this step, right after the loss was computed and the marker operator ran
  std::string how = "kill";
  std::string until;          // paced: trains until this file is there
  std::string hold;           // mlp: in step 10 says "held" and sleeps until this file is there
  int rounds = 100;           // threads: operators' rounds per thread
  std::int64_t count = 2000;  // sequence: values per thread
  int threads = 1;            // sequence: how many threads
  int pace_us = 0;            // sequence: pause after each value
  std::string progress;       // sequence: file of one u64 per thread, "values finished", survives SIGKILL
};

// The value of the operator `aten::full([1], kMarker)` that a job runs as its last act before it dies.
inline constexpr int kMarker = 4242;

// Each runs a job and yields the process's exit code.
int run_mlp(const Options& options);
int run_cnn(const Options& options);
int run_paced(const Options& options);
int run_evidence(const Options& options);
int run_infer(const Options& options);
int run_threads(const Options& options);
int run_sequence(const Options& options);

// What the job will do, as one JSON object: steps, module paths with types and calls.
std::string describe_mlp(const Options& options);
std::string describe_cnn(const Options& options);
std::string describe_infer(const Options& options);

// Runs the marker operator, then ends the process as `options.how` says: kill, abort, segv, exit (code 3).
[[noreturn]] void die(const Options& options);

// Runs `job` under PyTorch's own profiler and writes {"total":…,"by_name":{name:[calls, top-level calls]}} to
// `path`.
int run_counted(int (*job)(const Options&), const Options& options, const std::string& path);

}  // namespace ttjob
