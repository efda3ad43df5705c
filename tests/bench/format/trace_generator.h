// Makes traces of any size that look like those of a real training job: for benchmarks and for tests of size.
//
//   TraceGenerator generator({.events = 100000});
//   std::string lines;
//   while (generator.next(lines)) { write(lines); lines.clear(); }
//
// Training steps of a transformer: module spans, operator spans, operators with the `ext` that the probe
// writes (proto/ext.md), memory, samples of the device, kernels on the device's clock, statistics, data
// edges. The stream keeps all rules of the specification's §1.2 and raises no issue of severity error (§3.2).
// Gradients come once, behind the first step: a trace has one record per parameter. Same options, same bytes.
//
// Memory: what is live within one step, whatever the size. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "format/event.h"
#include "format/line_writer.h"

namespace tensortap::bench {

struct GeneratorOptions {
  // It ends as soon as one of the two is reached; 0 = no bound. What is open or live then is closed and
  // freed: a few hundred records more.
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
  bool failed = false;  // ends inside a step: spans stay open, blocks stay live, outcome `failed`
  std::uint64_t seed = 1;
};

class TraceGenerator {
 public:
  explicit TraceGenerator(const GeneratorOptions& options);

  // Appends the next lines, at most a step of the model. False: the trace is whole, nothing was appended.
  bool next(std::string& lines);

  std::uint64_t events() const { return events_; }
  std::uint64_t bytes() const { return bytes_; }

  struct Operator;  // a row of the model's table

 private:
  struct Span {
    std::string id;
    std::uint64_t start_ns = 0;
  };
  struct Block {
    std::uint64_t storage = 0;
    std::uint64_t bytes = 0;
  };

  template <class Event>
  void write(const Event& event);
  bool is_enough() const;
  void begin();
  void step();
  void finish();

  void open_span(std::string_view name, format::SpanKind kind, std::string_view ext_members = {},
                 const format::Step* step = nullptr);
  void close_span();
  void pass(format::Step step, std::string_view name);
  void layer(int number, const format::Step* step);
  void run(const Operator& op, const format::Step* step);
  void write_op(const Operator& op, std::uint64_t start_ns, std::uint64_t duration_ns, std::uint64_t storage);
  void write_memory(const Block& block, std::string_view op_name, format::MemoryAction action);
  void write_kernel();
  void write_statistics(std::string_view label);
  void free_all();
  void sample_device();
  void gradients();
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  void spend(std::uint64_t least_ns, std::uint64_t spread_ns) { now_ns_ += least_ns + below(spread_ns); }

  GeneratorOptions options_;
  std::mt19937_64 random_;
  std::string* out_ = nullptr;
  std::uint64_t events_ = 0, bytes_ = 0;
  bool finished_ = false;

  std::uint64_t now_ns_ = 0, device_ns_ = 0, live_bytes_ = 0;
  std::uint64_t steps_ = 0, last_span_ = 0, last_tensor_ = 0, last_storage_ = 0, last_seq_ = 0;
  std::vector<Span> open_;
  std::vector<Block> live_;
  // Reused for each record.
  std::string ext_, storage_text_, output_text_;
  std::vector<std::string> input_texts_;
  format::Op op_;
  format::Memory memory_;
  format::TensorStats statistics_;
};

}  // namespace tensortap::bench
