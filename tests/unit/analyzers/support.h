// Small hand-made traces for the tests of analyzers/, and looks into their reports.
//
//   Trace trace;
//   trace.span("p", "w", "outer", 10).op("p", "add", 12, 5).end("p", 100);
//   boost::json::object report = trace.report();
//   number(row(report, "/timing/operators", "add"), "self");
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzers/analysis.h"

namespace tensortap::analyzers::testing {

// Builds lines. Begins with a meta record, the root `r` and the measured window `w`, both from 0.
class Trace {
 public:
  // `meta_ext` is the text of an object; `coverage` is claimed for operations and memory.
  explicit Trace(std::string_view meta_ext = R"({"producer":"tensortap 0"})",
                 std::string_view coverage = "complete") {
    lines_ =
        R"({"kind":"meta","schema":"candle-graph/trace/10","run_id":"r","correlation_id":"c","entrypoint":"job",)"
        R"("phase":"train","timestamp":"2026-01-15T09:30:00Z","capture_step":1,"warmup_steps":0,"device":"cpu",)"
        R"("timing_mode":"host","capture_contract":{"measurement_scope":"profiled_work","operations":")" +
        std::string(coverage) + R"(","logical_memory":")" + std::string(coverage) +
        R"(","physical_memory":"none","device_timing":"none"},"tags":{},"ext":)" + std::string(meta_ext) +
        "}\n";
    line(
        R"({"kind":"span_start","id":"r","name":"job","start_ns":0,"span_kind":"function","measured":false})");
    line(
        R"({"kind":"span_start","id":"w","parent_id":"r","name":"window","start_ns":0,"span_kind":"function","measured":true})");
  }

  Trace& line(std::string_view text) {
    lines_ += text;
    lines_ += '\n';
    return *this;
  }
  Trace& span(std::string_view id, std::string_view parent, std::string_view name, std::uint64_t start,
              std::string_view kind = "function", std::string_view more = "") {
    return line(R"({"kind":"span_start","id":)" + quoted(id) + R"(,"parent_id":)" + quoted(parent) +
                R"(,"name":)" + quoted(name) + R"(,"start_ns":)" + std::to_string(start) +
                R"(,"span_kind":)" + quoted(kind) + R"(,"measured":false)" + std::string(more) + "}");
  }
  Trace& end(std::string_view id, std::uint64_t duration, std::string_view more = "") {
    return line(R"({"kind":"span_end","id":)" + quoted(id) + R"(,"duration_ns":)" + std::to_string(duration) +
                std::string(more) + "}");
  }
  Trace& op(std::string_view span, std::string_view name, std::uint64_t start, std::uint64_t duration,
            std::string_view ext = R"({"thread":1})", std::string_view shape = "[2,3]") {
    return line(R"({"kind":"op","span_id":)" + quoted(span) + R"(,"op_name":)" + quoted(name) +
                R"(,"inputs":[],"shape":)" + std::string(shape) +
                R"(,"dtype":"f32","device":"cpu","duration_ns":)" + std::to_string(duration) +
                R"(,"timestamp_ns":)" + std::to_string(start) + R"(,"input_dense_bytes":0,"ext":)" +
                std::string(ext) + "}");
  }
  Trace& memory(std::string_view action, std::string_view storage, std::uint64_t time, std::uint64_t bytes,
                std::string_view span = "w", std::string_view device = "cpu", std::string_view more = "") {
    return line(R"({"kind":"memory","timestamp_ns":)" + std::to_string(time) + R"(,"storage_id":)" +
                quoted(storage) + R"(,"tensor_id":"t","span_id":)" + quoted(span) + R"(,"device":)" +
                quoted(device) + R"(,"bytes":)" + std::to_string(bytes) + R"(,"action":)" + quoted(action) +
                R"(,"dtype":"u8")" + std::string(more) + "}");
  }
  // Ends the window, the root and the trace.
  Trace& finish(std::uint64_t time, std::string_view terminal_ext = "{}") {
    end("w", time).end("r", time);
    return line(R"({"kind":"terminal","outcome":"complete","timestamp_ns":)" + std::to_string(time) +
                R"(,"ext":)" + std::string(terminal_ext) + "}");
  }
  Trace& fail(std::uint64_t time, std::string_view reason, std::string_view ext = "{}") {
    return line(R"({"kind":"terminal","outcome":"failed","timestamp_ns":)" + std::to_string(time) +
                R"(,"reason":)" + quoted(reason) + R"(,"ext":)" + std::string(ext) + "}");
  }

  const std::string& text() const { return lines_; }
  boost::json::object report() const {
    Analysis analysis;
    analysis.consume_lines(lines_);
    boost::json::object out = analysis.report();
    EXPECT_EQ(out["input"].at("bad_lines").as_uint64(), 0U) << lines_;
    return out;
  }

  static std::string quoted(std::string_view text) {
    return boost::json::serialize(boost::json::value(text));
  }

 private:
  std::string lines_;
};

inline boost::json::value at(const boost::json::object& report, std::string_view pointer) {
  boost::system::error_code error;
  const boost::json::value whole(report);
  const boost::json::value* found = whole.find_pointer(pointer, error);
  return found ? *found : boost::json::value(nullptr);
}

// A list of the report, by value: a range-for may walk over it.
inline boost::json::array items(const boost::json::object& report, std::string_view pointer) {
  const boost::json::value value = at(report, pointer);
  return value.is_array() ? value.get_array() : boost::json::array();
}

// The row with that name of a table; an empty object when there is none.
inline boost::json::object row(const boost::json::object& report, std::string_view table,
                               std::string_view name, std::string_view key = "name") {
  const boost::json::value rows = at(report, std::string(table) + "/rows");
  if (!rows.is_array()) return {};
  for (const auto& item : rows.as_array()) {
    const auto* value = item.as_object().if_contains(key);
    if (value && *value == boost::json::value(name)) return item.as_object();
  }
  return {};
}

// ~0 when it is missing or no number: no test expects that.
inline std::uint64_t number(const boost::json::value& value) {
  if (value.is_uint64()) return value.as_uint64();
  return value.is_int64() ? static_cast<std::uint64_t>(value.as_int64()) : ~std::uint64_t{0};
}
inline std::uint64_t number(const boost::json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value ? number(*value) : ~std::uint64_t{0};
}
inline std::uint64_t number_at(const boost::json::object& report, std::string_view pointer) {
  return number(at(report, pointer));
}
inline std::string text(const boost::json::object& report, std::string_view pointer) {
  const boost::json::value value = at(report, pointer);
  return value.is_string() ? std::string(value.as_string().c_str()) : std::string();
}

}  // namespace tensortap::analyzers::testing
