// What a seek table knows of a line: the same as the full reader says, for any way of writing the line.
#include <gtest/gtest.h>

#include <string>

#include "format/line_facts.h"

namespace tensortap::format {
namespace {

// Once with room behind the line (here: another line), once without.
LineFacts facts_of(const std::string& line) {
  static FactReader reader;
  const std::string text = line + "\n" +
                           R"({"kind":"op","timestamp_ns":99,"x":"some more text to read over"})" +
                           std::string(100, ' ');
  const LineFacts near =
      reader.read(std::string_view(text).substr(0, line.size()), text.size() - line.size());
  const std::string id(near.id);
  const LineFacts alone = reader.read(line, 0);
  EXPECT_EQ(near.kind, alone.kind) << line;
  EXPECT_EQ(near.time_ns, alone.time_ns) << line;
  EXPECT_EQ(near.step, alone.step) << line;
  EXPECT_EQ(id, alone.id) << line;
  EXPECT_EQ(near.duration_ns, alone.duration_ns) << line;
  return alone;
}

TEST(LineFactsTest, EveryKindIsToldAndHasTheTimeThatTheFormatGivesIt) {
  const std::string fields =
      R"("timestamp_ns":7,"start_ns":8,"duration_ns":9,"id":"i","span_id":"s","name":"n"})";
  for (std::size_t i = 0; i < kRecordKinds; ++i) {
    const auto kind = static_cast<RecordKind>(i);
    const std::string name(record_kind_name(kind));
    EXPECT_EQ(record_kind_from_name(name), kind);
    const LineFacts facts = facts_of(R"({"kind":")" + name + "\"," + fields);
    EXPECT_EQ(facts.kind, kind);
    if (kind == RecordKind::kSpanStart) {
      EXPECT_EQ(facts.time_ns, 8u);
    } else if (has_host_time(kind)) {
      EXPECT_EQ(facts.time_ns, 7u) << name;
    } else {
      EXPECT_EQ(facts.time_ns, std::nullopt) << name;
    }
  }
  EXPECT_FALSE(record_kind_from_name("Op"));
}

TEST(LineFactsTest, FieldsMayStandAnywhereAndKeysMayBeEscaped) {
  for (const char* line :
       {R"({"timestamp_ns":5,"inputs":[],"kind":"op"})", R"({ "kind" : "op" , "timestamp_ns" : 5 })",
        R"({"k\u0069nd":"op","timestamp\u005fns":5})",
        R"({"kind":"\u006fp","a":"\\\"timestamp_ns\":9","timestamp_ns":5})",
        R"({"kind":"op","ext":{"timestamp_ns":6},"inputs":["\"timestamp_ns\":7"],"timestamp_ns":5})",
        "  {\"kind\":\"op\",\"timestamp_ns\":5}\r",
        "\xC2\xA0{\"kind\":\"op\",\"timestamp_ns\":5}\xE3\x80\x80"}) {
    const LineFacts facts = facts_of(line);
    EXPECT_EQ(facts.kind, RecordKind::kOp) << line;
    EXPECT_EQ(facts.time_ns, 5u) << line;
  }
  EXPECT_EQ(facts_of(R"({"kind":"op"})").time_ns, 0u) << "the format's default";
  EXPECT_EQ(facts_of(R"({"kind":"op","timestamp_ns":18446744073709551615})").time_ns, 18446744073709551615u);
}

TEST(LineFactsTest, StepsAreFunctionSpansOfThatName) {
  const auto step = [](const char* name, const char* kind) {
    return facts_of(std::string(R"({"kind":"span_start","id":"s1.4","name":")") + name +
                    R"(","start_ns":1,"span_kind":")" + kind + "\"}")
        .step;
  };
  EXPECT_EQ(step("step-000000000042", "function"), 42u);
  EXPECT_EQ(step("step-000000000042", "module"), std::nullopt);
  EXPECT_EQ(step("step-42", "function"), std::nullopt);
  EXPECT_EQ(step("step-00000000004x", "function"), std::nullopt);
  EXPECT_EQ(step("step-0000000000042", "function"), std::nullopt);
  EXPECT_EQ(
      facts_of(
          R"({"span_kind":"function","name":"step-000000000007","start_ns":1,"id":"a","kind":"span_start"})")
          .step,
      7u);
}

TEST(LineFactsTest, SpansAndIntervalsTellTheirIds) {
  EXPECT_EQ(facts_of(R"({"kind":"span_start","id":"s1.4","name":"x","start_ns":1})").id, "s1.4");
  const LineFacts end = facts_of(R"({"kind":"span_end","id":"s1.4","duration_ns":12})");
  EXPECT_EQ(end.id, "s1.4");
  EXPECT_EQ(end.duration_ns, 12u);
  EXPECT_EQ(facts_of(R"({"kind":"span_end","id":"s1.4"})").duration_ns, 0u);
  EXPECT_EQ(facts_of(R"({"kind":"device_interval","start_ns":3,"span_id":"s9"})").id, "s9");
}

TEST(LineFactsTest, WhatIsNoRecordHasNoKind) {
  for (const char* line :
       {"", " ", "{", "{}", "[]", "x", R"({"kind":7})", R"({"kind":"ops"})", R"({"kind":"op")",
        R"({"timestamp_ns":5})", "{\"kind\":\"\xFF\"}", R"({"kind":"op" "timestamp_ns":5})"}) {
    EXPECT_FALSE(facts_of(line).kind) << line;
  }
}

}  // namespace
}  // namespace tensortap::format
