// What the rules between records and structural health cost per record, alone: no bytes are read. Typed
// events like those of a training job are made once per round in memory and shown to a visitor.
//
//   health_per_event [--events 4000000] [--rounds 5]
//
// Prints CPU time per event: the median of the rounds, which take turns. Pin it: taskset -c 0
// health_per_event.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "format/health/trace_health.h"
#include "format/stream_rules.h"

namespace {

using namespace tensortap::format;  // NOLINT(google-build-using-namespace): a program's main file

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Text of an id, as the reader hands it out: fresh bytes, not interned.
class Id {
 public:
  explicit Id(const char* prefix) : prefix_length_(std::strlen(prefix)) {
    std::memcpy(text_, prefix, prefix_length_);
  }
  std::string_view of(std::uint64_t number) {
    char digits[20];
    std::size_t n = 0;
    do digits[n++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    for (std::size_t i = 0; i < n; ++i) text_[prefix_length_ + i] = digits[n - 1 - i];
    return {text_, prefix_length_ + n};
  }

 private:
  char text_[32];
  std::size_t prefix_length_;
};

// Steps of modules of operators: per operator a span, its record with two inputs, and now and then storages.
class Stream {
 public:
  explicit Stream(std::uint64_t events) : events_(events) {
    op_.inputs.resize(2);
    op_.shape = {64, 128};
    op_.dtype = memory_.dtype = "f32";
    op_.device = memory_.device = "cpu";
  }

  std::uint64_t show(EventVisitor& visitor) {
    shown_ = now_ = 0;
    spans_ = 3;
    tensors_ = storages_ = 10;
    Meta meta;
    meta.run_id = meta.correlation_id = meta.entrypoint = meta.timestamp = meta.device = "bench";
    visitor.on_meta(meta, place());
    start(visitor, root_.of(1), std::nullopt, false);
    start(visitor, root_.of(2), "s0.1", true);
    while (shown_ < events_) step(visitor);
    end(visitor, root_.of(2), 0);
    end(visitor, root_.of(1), 0);
    Terminal terminal;
    terminal.timestamp_ns = now_;
    visitor.on_terminal(terminal, place());
    return shown_;
  }

 private:
  Place place() {
    const Place place{shown_, shown_ + 1, shown_ * 260};
    ++shown_;
    return place;
  }
  void start(EventVisitor& visitor, std::string_view id, std::optional<std::string_view> parent,
             bool measured) {
    SpanStart event;
    event.id = id;
    event.parent_id = parent;
    event.name = "aten::linear";
    event.start_ns = now_;
    event.measured = measured;
    visitor.on_span_start(event, place());
  }
  void end(EventVisitor& visitor, std::string_view id, std::uint64_t begun) {
    SpanEnd event;
    event.id = id;
    event.duration_ns = now_ - begun;
    visitor.on_span_end(event, place());
  }
  void op(EventVisitor& visitor, std::string_view span, std::uint64_t begun) {
    op_.span_id = span;
    op_.op_name = "aten::mm";
    op_.inputs[0] = input_.of(tensors_ - 1);
    op_.inputs[1] = parameter_.of(2 + tensors_ % 200);
    op_.output = output_.of(tensors_++);
    op_.timestamp_ns = begun;
    op_.duration_ns = now_ - begun;
    visitor.on_op(op_, place());
  }
  void memory(EventVisitor& visitor, std::string_view span, MemoryAction action, std::uint64_t storage) {
    memory_.timestamp_ns = now_;
    memory_.storage_id = storage_.of(storage);
    memory_.tensor_id = input_.of(storage * 2);
    memory_.span_id = span;
    memory_.bytes = 4096;
    memory_.action = action;
    visitor.on_memory(memory_, place());
  }
  void step(EventVisitor& visitor) {
    const std::uint64_t step = spans_++, begun = now_;
    start(visitor, span_.of(step), "s0.2", false);
    for (int module = 0; module < 20; ++module) {
      const std::uint64_t layer = spans_++, layer_begun = now_;
      start(visitor, span_.of(layer), parent_.of(step), false);
      for (int operators = 0; operators < 4; ++operators) {
        const std::uint64_t call = spans_++, call_begun = now_;
        start(visitor, span_.of(call), parent_.of(layer), false);
        memory(visitor, span_.of(call), MemoryAction::kAlloc, storages_++);
        for (int leaf = 0; leaf < 3; ++leaf) {
          now_ += 10;
          op(visitor, span_.of(call), now_ - 10);
        }
        if (storages_ > 300) memory(visitor, span_.of(call), MemoryAction::kFree, storages_ - 290);
        op(visitor, span_.of(call), call_begun);
        end(visitor, span_.of(call), call_begun);
      }
      end(visitor, span_.of(layer), layer_begun);
    }
    end(visitor, span_.of(step), begun);
  }

  std::uint64_t events_, shown_ = 0, now_ = 0, spans_ = 3, tensors_ = 10, storages_ = 10;
  Id root_{"s0."}, span_{"s1."}, parent_{"s1."}, input_{"t"}, parameter_{"t"}, output_{"t"}, storage_{"m"};
  Op op_;
  Memory memory_;
};

struct Nothing final : EventVisitor {};

template <class Visitor, class Finish>
double round_of(std::uint64_t events, Finish finish) {
  Stream stream(events);
  const double begin = cpu_seconds();
  Visitor visitor;
  const std::uint64_t shown = stream.show(visitor);
  finish(visitor);
  return (cpu_seconds() - begin) / static_cast<double>(shown) * 1e9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t events = 4000000;
  int rounds = 5;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--events") == 0) events = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  std::vector<double> nothing, rules, health;
  for (int round = 0; round < rounds; ++round) {
    nothing.push_back(round_of<Nothing>(events, [](Nothing&) {}));
    rules.push_back(round_of<StreamRules>(events, [](StreamRules& visitor) {
      if (!visitor.finish()) std::puts("the stream breaks a rule");
    }));
    health.push_back(round_of<TraceHealth>(events, [](TraceHealth& visitor) {
      const Health result = visitor.finish();
      if (!result.structurally_valid || !visitor.stream_status()) std::puts("the stream is not valid");
    }));
  }
  const double base = median(nothing);
  std::printf("%llu events, median of %d rounds, CPU time per event without making the event (%.1f ns)\n",
              static_cast<unsigned long long>(events), rounds, base);
  std::printf("  rules between records      %6.1f ns\n", median(rules) - base);
  std::printf("  rules and health           %6.1f ns\n", median(health) - base);
  return 0;
}
