// What the Python tests of this folder need of our writer and reader.
//
//   trace10_tool lines N     lines of N random events of each kind, as a producer may write them
//   trace10_tool ring        lines of one ring record of every type, with their `ext`
//   trace10_tool probe       what a probe says of this process: hello, its first records, a batch line
//   trace10_tool floats N    a stream of N tensor statistics; each label has the bits of the record's mean
//   trace10_tool read FILE…  for each file one line: "accepted", or "refused" with line and reason
//   trace10_tool judge FILE  the same for each line of a file, taken by itself
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "format/line_reader.h"
#include "format/line_writer.h"
#include "format/stream_rules.h"
#include "format/trace_reader.h"
#include "probe/core/process_facts.h"
#include "probe/core/protocol_lines.h"
#include "tests/support/ring_samples.h"
#include "tests/unit/format_events.h"

namespace {

using namespace tensortap::format;

// Random events are free in what the records' own rules are about (§1.2 rules 8 to 10): these keep them.
template <class Event>
void keep_rules(Event&) {}
void keep_rules(Meta& meta) { meta.schema = "candle-graph/trace/10"; }
void keep_rules(TensorStats& stats) {
  stats.label = "loss";
  stats.rms = std::fabs(stats.rms);
  stats.abs_max = std::fabs(stats.abs_max);
}
void keep_rules(Terminal& terminal) {
  if (terminal.outcome == Outcome::kFailed) {
    terminal.reason = "killed by signal 9";
  } else {
    terminal.reason.reset();
  }
}

std::string random_lines(std::uint64_t count) {
  std::string out;
  LineWriter writer(out);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    RandomEvents random(seed);
    random.each_kind([&](auto event) {
      keep_rules(event);
      writer.write(event);
    });
  }
  return out;
}

std::string ring_lines() {
  std::string out;
  const RingSamples samples = ring_samples();
  RecordRenderer renderer(out);
  for (const std::string& record : samples.records) {
    renderer.append(bytes_of(record), record.size(), 1, samples.table());
  }
  return out;
}

std::string probe_lines() {
  using namespace tensortap::probe;
  ProcessFacts facts = read_process_facts("2.1.0", "71-8812-a1b2");
  facts.launch = "launch-1";
  facts.rank = 0;
  facts.world_size = 2;
  std::string out = hello_line(facts, 1 << 20, false) + hello_line(facts, 1 << 20, true) + meta_line(facts) +
                    root_line(facts) + window_line(7);
  append_batch_line(out, 1, 0, {});
  append_batch_line(out, 2, 3, {{0, 512, 3}, {4095, 8192, 40}});
  return out;
}

std::string float_stream(std::uint64_t count) {
  std::string out;
  LineWriter writer(out);
  Meta meta;
  meta.run_id = meta.correlation_id = meta.entrypoint = "floats";
  meta.timestamp = "2026-01-01T00:00:00Z";
  meta.device = "cpu";
  writer.write(meta);
  writer.write(SpanStart{"s1", {}, "root", 0, SpanKind::kFunction, true, {}, ""});
  std::mt19937_64 random(20260102);
  for (std::uint64_t written = 0; written < count;) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    char bits[20];
    std::snprintf(bits, sizeof bits, "%016llx",
                  static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
    TensorStats stats{"s1", bits, {}, "f64", 1, 0, std::fabs(value), std::fabs(value), value, ""};
    writer.write(stats);
    ++written;
  }
  writer.write(SpanEnd{"s1", 10, ""});
  writer.write(Terminal{Outcome::kComplete, 10, {}, ""});
  return out;
}

std::string verdict(const std::string& path) {
  Result<TraceReader> reader = TraceReader::open(path);
  if (!reader) return "refused " + reader.error().to_string();
  StreamRules rules;
  const ReadReport report = reader->read_all(rules);
  const Status between = rules.finish();
  if (report.errors.empty() && between.ok()) return "accepted";
  const Error& error = report.errors.empty() ? between.error() : report.errors.front();
  return "refused line " + std::to_string(error.line) + ": " + error.message;
}

std::string line_verdicts(const std::string& path) {
  Result<TraceReader> reader = TraceReader::open(path);
  if (!reader) return "";
  LineReader lines;
  EventVisitor nobody;
  std::string out;
  std::string_view line;
  for (Place place; reader->next_line(line, place);) {
    const Status status = lines.read(line, place, nobody);
    out += status ? "accepted\n" : "refused " + status.error().message + "\n";
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  std::string out;
  if (command == "read" && argc > 2) {
    for (int i = 2; i < argc; ++i) out += verdict(argv[i]) + "\n";
  } else if (command == "judge" && argc == 3) {
    out = line_verdicts(argv[2]);
  } else if (command == "ring" && argc == 2) {
    out = ring_lines();
  } else if (command == "probe" && argc == 2) {
    out = probe_lines();
  } else if (command == "lines" && argc == 3) {
    out = random_lines(std::strtoull(argv[2], nullptr, 10));
  } else if (command == "floats" && argc == 3) {
    out = float_stream(std::strtoull(argv[2], nullptr, 10));
  } else {
    std::fputs("usage: trace10_tool lines N | ring | probe | floats N | read FILE... | judge FILE\n", stderr);
    return 2;
  }
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
