// Command line of ttjob (see job.h).
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/jobs/cpp/job.h"

int main(int argc, char** argv) {
  CLI::App app{"A libtorch program of known behaviour, for tests"};
  ttjob::Options options;
  bool describe = false;
  std::string counts;
  app.require_subcommand(1);

  const auto common = [&](CLI::App* job) {
    job->add_option("--steps", options.steps);
    job->add_option("--batch", options.batch);
    job->add_option("--kill-step", options.kill_step);
    job->add_option("--how", options.how)->check(CLI::IsMember({"kill", "abort", "segv", "exit"}));
    job->add_flag("--describe", describe, "Print what the job will do, as JSON, and exit");
    job->add_option("--counts", counts,
                    "Run under PyTorch's profiler and write operator counts to this file");
  };
  CLI::App* mlp = app.add_subcommand("mlp", "Trains an MLP on three spiral arms");
  CLI::App* cnn = app.add_subcommand("cnn", "Trains a CNN on drawn digits");
  CLI::App* paced =
      app.add_subcommand("paced", "Trains an MLP, a step every few milliseconds, until a file is there");
  paced->add_option("--until", options.until)->required();
  CLI::App* infer = app.add_subcommand("infer", "Runs a residual network without gradients");
  CLI::App* threads =
      app.add_subcommand("threads", "Two threads, rounds of {rand, rand, add} and {rand, rand, mul}");
  CLI::App* sequence = app.add_subcommand("sequence", "Operators whose arguments count up");
  CLI::App* evidence =
      app.add_subcommand("evidence", "Trains without an optimizer; says what torch says of the net");
  for (CLI::App* job : {mlp, cnn, infer}) common(job);
  evidence->add_option("--steps", options.steps);
  mlp->add_option("--hold", options.hold, "In step 10 say so and sleep until this file is there");
  threads->add_option("--rounds", options.rounds);
  sequence->add_option("--count", options.count);
  sequence->add_option("--threads", options.threads);
  sequence->add_option("--pace-us", options.pace_us);
  sequence->add_option("--progress", options.progress);
  CLI11_PARSE(app, argc, argv);

  if (describe) {
    const auto text = *mlp   ? ttjob::describe_mlp(options)
                      : *cnn ? ttjob::describe_cnn(options)
                             : ttjob::describe_infer(options);
    std::puts(text.c_str());
    return 0;
  }
  int (*job)(const ttjob::Options&) = *mlp        ? ttjob::run_mlp
                                      : *cnn      ? ttjob::run_cnn
                                      : *paced    ? ttjob::run_paced
                                      : *evidence ? ttjob::run_evidence
                                      : *infer    ? ttjob::run_infer
                                      : *threads  ? ttjob::run_threads
                                                  : ttjob::run_sequence;
  return counts.empty() ? job(options) : ttjob::run_counted(job, options, counts);
}
