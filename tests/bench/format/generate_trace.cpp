// generate_trace --events N | --bytes N [--failed] [--seed N] [FILE]: a trace like a training job's, as
// .jsonl (trace_generator.h).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "trace_generator.h"

int main(int argc, char** argv) {
  tensortap::bench::GeneratorOptions options;
  std::string path;
  CLI::App app{"Writes a trace like a training job's as .jsonl. Same options, same bytes."};
  auto* size = app.add_option_group("size")->require_option(1);
  size->add_option("--events", options.events, "about so many records (a few hundred more)");
  size->add_option("--bytes", options.bytes, "about so many bytes; suffixes like 10GB are known")
      ->transform(CLI::AsSizeValue(true));
  app.add_flag("--failed", options.failed, "a capture that failed: spans stay open");
  app.add_option("--seed", options.seed, "of the random numbers")->capture_default_str();
  app.add_option("FILE", path, "where to (default: standard output)");
  CLI11_PARSE(app, argc, argv);

  std::FILE* file = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    std::perror(path.c_str());
    return 1;
  }
  tensortap::bench::TraceGenerator generator(options);
  std::string lines;
  bool good = true;
  while (good && generator.next(lines)) {
    good = std::fwrite(lines.data(), 1, lines.size(), file) == lines.size();
    lines.clear();
  }
  good = std::fclose(file) == 0 && good;
  if (!good) std::perror("cannot write the trace");
  return good ? 0 : 1;
}
