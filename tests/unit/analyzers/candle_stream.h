// Typed events of a small trace, shown to the candle-graph evidence one by one.
//
//   Stream stream;
//   stream.begin().span("r", "", 0, 100).span("w", "r", 10, 50, {.measured = true});
//   stream.op("w", "mm", 10, 5, {.output = "t1"}).end();
//   stream.evidence.graph()->slowest_host …
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyzers/candle/evidence.h"

namespace tensortap::analyzers::candle::testing {

struct SpanOptions {
  format::SpanKind kind = format::SpanKind::kFunction;
  bool measured = false, open = false;
};
struct OpOptions {
  std::string_view output = "";
  std::string_view device = "cpu";
  std::string_view dtype = "f32";
};
struct MemoryOptions {
  std::string_view op_name = "";
  std::string_view tensor = "t";
  format::MemoryCategory category = format::MemoryCategory::kActivation;
};

class Stream {
 public:
  Evidence evidence;
  format::Meta meta;  // change it before begin()

  Stream() {
    meta.run_id = meta.correlation_id = meta.entrypoint = meta.timestamp = meta.device = "x";
    meta.capture_contract.operations = format::Coverage::kComplete;
  }

  Stream& begin() {
    evidence.on_meta(meta, next());
    return *this;
  }
  Stream& span(std::string_view id, std::string_view parent, std::uint64_t start, std::uint64_t duration,
               SpanOptions options = {}) {
    format::SpanStart event;
    event.id = event.name = id;
    if (!parent.empty()) event.parent_id = parent;
    event.start_ns = start;
    event.span_kind = options.kind;
    event.measured = options.measured;
    evidence.on_span_start(event, next());
    if (!options.open) evidence.on_span_end({id, duration, {}}, next());
    last_ns_ = std::max(last_ns_, start + duration);
    return *this;
  }
  Stream& op(std::string_view span, std::string_view name, std::uint64_t start, std::uint64_t duration,
             OpOptions options = {}) {
    format::Op event;
    event.span_id = span;
    event.op_name = name;
    if (!options.output.empty()) event.output = options.output;
    event.dtype = options.dtype;
    event.device = options.device;
    event.timestamp_ns = start;
    event.duration_ns = duration;
    evidence.on_op(event, next());
    return *this;
  }
  Stream& tensor(std::string_view span, std::string_view id, format::MemoryCategory category) {
    format::Tensor event;
    event.span_id = span;
    event.tensor_id = id;
    event.dtype = "f32";
    event.device = "cpu";
    event.category = category;
    evidence.on_tensor(event, next());
    return *this;
  }
  Stream& alloc(std::string_view span, std::string_view storage, std::uint64_t at, std::uint64_t bytes,
                MemoryOptions options = {}) {
    return memory(format::MemoryAction::kAlloc, span, storage, at, bytes, options);
  }
  Stream& free(std::string_view span, std::string_view storage, std::uint64_t at, std::uint64_t bytes,
               MemoryOptions options = {}) {
    return memory(format::MemoryAction::kFree, span, storage, at, bytes, options);
  }
  Stream& interval(std::string_view span, std::uint64_t start, std::uint64_t duration) {
    evidence.on_device_interval({span, "cuda:0", "1", "c", "cupti", start, duration, {}}, next());
    return *this;
  }
  format::Status end(format::Outcome outcome = format::Outcome::kComplete) {
    format::Terminal event;
    event.outcome = outcome;
    event.timestamp_ns = last_ns_;
    if (outcome == format::Outcome::kFailed) event.reason = "it failed";
    evidence.on_terminal(event, next());
    return evidence.finish();
  }

 private:
  Stream& memory(format::MemoryAction action, std::string_view span, std::string_view storage,
                 std::uint64_t at, std::uint64_t bytes, MemoryOptions options) {
    format::Memory event;
    event.timestamp_ns = at;
    event.storage_id = storage;
    event.tensor_id = options.tensor;
    event.span_id = span;
    if (!options.op_name.empty()) event.op_name = options.op_name;
    event.device = "cpu";
    event.dtype = "f32";
    event.bytes = bytes;
    event.action = action;
    event.category = options.category;
    evidence.on_memory(event, next());
    return *this;
  }
  format::Place next() {
    ++place_.line;
    return {place_.index++, place_.line, 0};
  }

  format::Place place_;
  std::uint64_t last_ns_ = 0;
};

}  // namespace tensortap::analyzers::candle::testing
