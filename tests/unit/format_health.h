// Shows TraceHealth a stream of typed events, each as on a line of its own.
//
//   HealthStream stream;                                   // with a meta record
//   stream.start("r", {}, 0).measured();  stream.op("r", 3, 4).end("r", 10).complete(10);
//   EXPECT_EQ(stream.issues(), (Texts{"operation_outside_span 3"}));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/health/trace_health.h"

namespace tensortap::format {

using Texts = std::vector<std::string>;

class HealthStream {
 public:
  explicit HealthStream(HealthOptions options = {}) : health(options) {
    meta.run_id = meta.correlation_id = meta.entrypoint = meta.timestamp = meta.device = "x";
  }

  HealthStream& meta_record() {
    health.on_meta(meta, next());
    return *this;
  }
  HealthStream& start(std::string_view id, std::optional<std::string_view> parent, std::uint64_t at,
                      bool measured = false, std::string_view name = "n",
                      std::optional<Step> step = std::nullopt) {
    SpanStart event;
    event.id = id;
    event.parent_id = parent;
    event.name = name;
    event.start_ns = at;
    event.measured = measured;
    event.step = step;
    health.on_span_start(event, next());
    return *this;
  }
  HealthStream& end(std::string_view id, std::uint64_t duration) {
    SpanEnd event;
    event.id = id;
    event.duration_ns = duration;
    health.on_span_end(event, next());
    return *this;
  }
  HealthStream& op(std::string_view span, std::uint64_t at, std::uint64_t duration,
                   std::vector<std::string_view> inputs = {}, std::optional<std::string_view> output = {}) {
    Op event;
    event.span_id = span;
    event.timestamp_ns = at;
    event.duration_ns = duration;
    event.inputs = std::move(inputs);
    event.output = output;
    health.on_op(event, next());
    return *this;
  }
  HealthStream& tensor(std::string_view span, std::string_view id) {
    Tensor event;
    event.span_id = span;
    event.tensor_id = id;
    health.on_tensor(event, next());
    return *this;
  }
  HealthStream& memory(std::string_view span, MemoryAction action, std::string_view storage, std::uint64_t at,
                       std::uint64_t bytes, std::string_view tensor = "t", std::string_view device = "cpu") {
    Memory event;
    event.span_id = span;
    event.action = action;
    event.storage_id = storage;
    event.timestamp_ns = at;
    event.bytes = bytes;
    event.tensor_id = tensor;
    event.device = device;
    health.on_memory(event, next());
    return *this;
  }
  HealthStream& interval(std::string_view span, std::uint64_t duration) {
    DeviceInterval event;
    event.span_id = span;
    event.duration_ns = duration;
    health.on_device_interval(event, next());
    return *this;
  }
  HealthStream& call(std::string_view from, std::string_view to, std::uint64_t duration) {
    Edge event;
    event.edge_kind = Edge::Kind::kCall;
    event.from = from;
    event.to = to;
    event.host_duration_ns = duration;
    health.on_edge(event, next());
    return *this;
  }
  HealthStream& data(std::string_view from, std::string_view to) {
    Edge event;
    event.edge_kind = Edge::Kind::kData;
    event.from = from;
    event.to = to;
    health.on_edge(event, next());
    return *this;
  }
  HealthStream& gradient(std::string_view event_id, std::string_view root, std::string_view key,
                         GradientState state, std::optional<double> norm = std::nullopt) {
    Gradient event;
    event.event_id = event_id;
    event.root = root;
    event.key = key;
    event.state = state;
    event.norm = norm;
    health.on_gradient(event, next());
    return *this;
  }
  HealthStream& complete(std::uint64_t at) {
    Terminal event;
    event.timestamp_ns = at;
    health.on_terminal(event, next());
    return *this;
  }
  HealthStream& fail(std::uint64_t at) {
    Terminal event;
    event.outcome = Outcome::kFailed;
    event.timestamp_ns = at;
    event.reason = "killed";
    health.on_terminal(event, next());
    return *this;
  }

  // "code line" of each issue, warnings with a "w " before; those of absent records left out.
  Texts issues() {
    Texts out;
    for (const HealthIssue& issue : health.finish().issues) {
      if (issue.code.ends_with("_absent")) continue;
      out.push_back((issue.severity == Severity::kWarning ? "w " : "") + std::string(issue.code) +
                    (issue.place ? " " + std::to_string(issue.place->line) : ""));
    }
    return out;
  }

  Meta meta;
  TraceHealth health;

 private:
  Place next() {
    const Place place{line_, line_ + 1, line_ * 100};
    ++line_;
    return place;
  }
  std::uint64_t line_ = 0;
};

}  // namespace tensortap::format
