// The rules between records (specification §1.2) and the order in which violations are told (§1.1).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/line_reader.h"
#include "format/stream_rules.h"

namespace tensortap::format {
namespace {

std::string meta(std::string_view schema = "candle-graph/trace/10") {
  return R"({"kind":"meta","schema":")" + std::string(schema) +
         R"(","run_id":"r","correlation_id":"c","entrypoint":"e","phase":"infer","timestamp":"t","capture_step":1,"warmup_steps":0,"device":"cpu","timing_mode":"host","tags":{},"capture_contract":{"measurement_scope":"unknown","operations":"none","logical_memory":"none","physical_memory":"none","device_timing":"none"}})";
}
std::string start(std::string_view id, int at = 0) {
  return R"({"kind":"span_start","id":")" + std::string(id) + R"(","name":"n","span_kind":"op","start_ns":)" +
         std::to_string(at) + "}";
}
std::string end(std::string_view id, const std::string& duration = "10") {
  return R"({"kind":"span_end","id":")" + std::string(id) + R"(","duration_ns":)" + duration + "}";
}
std::string terminal(const std::string& at = "10", std::string_view rest = R"("outcome":"complete")") {
  return R"({"kind":"terminal","timestamp_ns":)" + at + "," + std::string(rest) + "}";
}
std::string stats(std::string_view shape, std::string_view elements) {
  return R"({"kind":"tensor_stats","span_id":"a","label":"l","dtype":"f32","non_finite":0,"rms":-0.0,"abs_max":0,"mean":-1,"shape":)" +
         std::string(shape) + R"(,"elements":)" + std::string(elements) + "}";
}
constexpr const char* kInterval =
    R"({"kind":"device_interval","span_id":"a","device":"cuda:0","stream_id":"7","clock_id":"c","backend":"b","start_ns":5000,"duration_ns":9})";
constexpr const char* kSample = R"({"kind":"device_memory","timestamp_ns":11,"device":"cpu"})";

// All violations of a stream, as "line message".
std::vector<std::string> violations(const std::vector<std::string>& lines) {
  LineReader reader;
  StreamRules rules;
  Place place{0, 1, 0};
  for (const std::string& line : lines) {
    const Status status = reader.read(line, place, rules);
    EXPECT_TRUE(status.ok()) << line << " " << status.error().message;
    ++place.index;
    ++place.line;
    place.byte_offset += line.size() + 1;
  }
  const Status status = rules.finish();
  std::vector<std::string> out;
  for (const Error& error : rules.errors()) out.push_back(std::to_string(error.line) + " " + error.message);
  EXPECT_EQ(status.ok(), out.empty());
  if (!status) {
    EXPECT_EQ(status.error().message, rules.errors().front().message);
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST(StreamRules, AWholeStreamHasNoViolation) {
  EXPECT_EQ(violations({meta(), start("a"), start("b", 4), end("b", "1"), stats("[2,3]", "6"),
                        stats("[]", "1"), stats("[0,9]", "0"), kInterval, end("a"), terminal()}),
            Texts{});
}

TEST(StreamRules, ASpanMayStayOpenWhenTheCaptureFailed) {
  EXPECT_EQ(violations({meta(), start("a", 10), terminal("10", R"("outcome":"failed","reason":"killed")")}),
            Texts{});
}

TEST(StreamRules, MetaComesFirstAndOnce) {
  EXPECT_EQ(violations({start("a"), meta(), end("a"), terminal()}),
            (Texts{"1 the first record of a stream must be meta",
                   "2 the meta record must be the first record of the stream"}));
  EXPECT_EQ(violations({meta(), meta(), terminal("0")}),
            Texts{"2 a second meta record; each run needs a stream of its own"});
}

TEST(StreamRules, AnEmptyStreamLacksBothEnds) {
  EXPECT_EQ(violations({}), (Texts{"0 the stream has no meta record",
                                   "0 the stream has no terminal record: its producer did not finish it"}));
}

TEST(StreamRules, NothingFollowsTheTerminal) {
  EXPECT_EQ(violations({meta(), terminal("0"), start("a"), terminal("0")}),
            (Texts{"3 a record follows the terminal record of line 2",
                   "4 a record follows the terminal record of line 2"}));
}

TEST(StreamRules, SpansStartOnceAndEndOnceAfterTheirStart) {
  EXPECT_EQ(violations({meta(), end("b"), start("a"), start("a"), end("a"), end("a"), terminal()}),
            (Texts{"2 span \"b\" ends before it starts", "4 span \"a\" was started before",
                   "6 span \"a\" ended before"}));
}

TEST(StreamRules, TensorStatsMustAddUp) {
  EXPECT_EQ(violations({meta(), stats("[2,3]", "5"), stats("[4294967296,4294967296,0]", "0"), terminal()}),
            (Texts{"2 tensor_stats has elements other than the product of its shape",
                   "3 tensor_stats has a shape whose product is beyond 64 bits"}));
}

TEST(StreamRules, OnlyTwoSchemasAreReadAndTrace9HasNoTensorStats) {
  EXPECT_EQ(violations({meta("candle-graph/trace/9"), terminal("0")}), Texts{});
  EXPECT_EQ(violations({meta("candle-graph/trace/9"), stats("[]", "1"), stats("[]", "1"), terminal("0")}),
            Texts{"2 a trace/9 stream may not hold tensor_stats records"});
  EXPECT_EQ(violations({meta("candle-graph/trace/11"), terminal("0")}).size(), 1u);
}

TEST(StreamRules, OnlyAFailedOutcomeHasAReason) {
  EXPECT_EQ(violations({meta(), terminal("0", R"("outcome":"complete","reason":"x")")}),
            Texts{"2 a complete outcome has no reason"});
  EXPECT_EQ(violations({meta(), terminal("0", R"("outcome":"failed","reason":"\u2003 \t")")}),
            Texts{"2 a failed outcome needs a reason"});
  EXPECT_EQ(violations({meta(), terminal("0", R"("outcome":"failed")")}),
            Texts{"2 a failed outcome needs a reason"});
  EXPECT_EQ(violations({meta(), terminal("0", R"("outcome":"complete","reason":null)")}), Texts{});
}

TEST(StreamRules, TheTerminalIsNotBeforeTheLatestHostTime) {
  EXPECT_EQ(violations({meta(), kSample, terminal("11")}), Texts{});
  EXPECT_EQ(violations({meta(), kSample, terminal("10")}).size(), 1u);
  EXPECT_EQ(violations({meta(), start("a", 11), terminal("10")}).size(), 1u)
      << "an open span counts with its start";
  EXPECT_EQ(violations({meta(), kInterval, terminal("0")}), Texts{}) << "device time is another clock";
}

TEST(StreamRules, EndsBeyond64BitsSaturate) {
  EXPECT_EQ(
      violations({meta(), start("a", 5), end("a", "18446744073709551615"), terminal("18446744073709551615")}),
      Texts{});
  EXPECT_EQ(
      violations({meta(), start("a", 5), end("a", "18446744073709551615"), terminal("18446744073709551614")})
          .size(),
      1u);
}

TEST(StreamRules, ViolationsWithinTheStreamAreToldBeforeThoseOfItsWhole) {
  EXPECT_EQ(violations({meta("candle-graph/trace/8"), end("x"), terminal("0", R"("outcome":"failed")")}),
            (Texts{"2 span \"x\" ends before it starts",
                   "1 schema \"candle-graph/trace/8\" is not one that can be read: candle-graph/trace/10 or "
                   "candle-graph/trace/9",
                   "3 a failed outcome needs a reason"}));
}

}  // namespace
}  // namespace tensortap::format
