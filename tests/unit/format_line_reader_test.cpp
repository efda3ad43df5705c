// What a line may look like (specification §1.4), case by case.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "format/line_reader.h"

namespace tensortap::format {
namespace {

struct Seen : EventVisitor {
  std::optional<SpanStart> span;
  std::optional<Op> op;
  std::optional<Memory> memory;
  std::optional<Gradient> gradient;
  std::optional<Edge> edge;
  std::optional<Meta> meta;
  std::string ext, text;  // copies: texts are valid only during the call
  void on_span_start(const SpanStart& e, const Place&) override {
    span = e;
    ext = e.ext;
    text = e.name;
  }
  void on_op(const Op& e, const Place&) override {
    op = e;
    text.clear();
    for (std::string_view input : e.inputs) text += std::string(input) + ";";
  }
  void on_memory(const Memory& e, const Place&) override { memory = e; }
  void on_gradient(const Gradient& e, const Place&) override { gradient = e; }
  void on_edge(const Edge& e, const Place&) override {
    edge = e;
    text = std::string(e.from) + ">" + std::string(e.to);
  }
  void on_meta(const Meta& e, const Place&) override { meta = e; }
};

class LineReaderTest : public ::testing::Test {
 protected:
  LineReader reader;
  Seen seen;

  // "" when the line is read, else the error's message.
  std::string read(std::string_view line) {
    seen = Seen{};
    const Status status = reader.read(line, Place{4, 7, 99}, seen);
    return status.ok() ? "" : status.error().message;
  }
  bool reads(std::string_view line) { return read(line).empty(); }

  static std::string span(std::string_view fields) {
    return R"({"kind":"span_start","id":"a","name":"n","start_ns":1,"span_kind":"op")" + std::string(fields) +
           "}";
  }
  static std::string norm(std::string_view token) {
    return R"({"kind":"gradient","event_id":"e","root":"r","key":"k","state":"present","norm":)" +
           std::string(token) + "}";
  }
  static std::string start(std::string_view token) {
    return R"({"kind":"span_start","id":"a","name":"n","span_kind":"op","start_ns":)" + std::string(token) +
           "}";
  }
};

TEST_F(LineReaderTest, FieldsMayStandInAnyOrderTheKindToo) {
  ASSERT_EQ(
      read(R"({"span_kind":"module","start_ns":3,"measured":true,"name":"n","id":"a","kind":"span_start"})"),
      "");
  EXPECT_EQ(seen.span->start_ns, 3u);
  EXPECT_EQ(seen.span->span_kind, SpanKind::kModule);
  EXPECT_TRUE(seen.span->measured);
}

TEST_F(LineReaderTest, AbsentFieldsTakeTheirDefaults) {
  ASSERT_EQ(read(span("")), "");
  EXPECT_FALSE(seen.span->parent_id);
  EXPECT_FALSE(seen.span->step);
  EXPECT_FALSE(seen.span->measured);
  EXPECT_EQ(seen.ext, "");
}

TEST_F(LineReaderTest, NullIsAbsentOnlyWhereAFieldIsNullable) {
  EXPECT_TRUE(reads(span(R"(,"parent_id":null,"step":null)")));
  EXPECT_FALSE(reads(span(R"(,"measured":null)")));
  EXPECT_FALSE(reads(start("null")));
  EXPECT_TRUE(reads(norm("null")));
  EXPECT_FALSE(seen.gradient->norm);
}

TEST_F(LineReaderTest, IntegersAreIntegerTokensOf64Bits) {
  EXPECT_TRUE(reads(start("18446744073709551615")));
  EXPECT_EQ(seen.span->start_ns, ~std::uint64_t{0});
  EXPECT_TRUE(reads(start("0")));
  for (const char* bad : {"18446744073709551616", "-1", "-0", "1.0", "1e3", "01", "+1", "\"1\"", "true", "[]",
                          "1x", "", "0x1", "1 2"}) {
    EXPECT_FALSE(reads(start(bad))) << bad;
  }
}

TEST_F(LineReaderTest, FloatsAreAnyJsonNumberWithinBinary64) {
  const auto value = [&](std::string_view token) {
    EXPECT_EQ(read(norm(token)), "") << token;
    return seen.gradient && seen.gradient->norm ? *seen.gradient->norm : -999.0;
  };
  EXPECT_EQ(value("1"), 1.0);
  EXPECT_EQ(value("-0.5e1"), -5.0);
  EXPECT_TRUE(std::signbit(value("-0")));
  EXPECT_EQ(value("100000000000000000000000"), 1e23);
  EXPECT_EQ(value("1e-400"), 0.0);
  EXPECT_EQ(value("0e999999999999999999999"), 0.0);
  EXPECT_EQ(value("1e-999999999999999999999"), 0.0);
  EXPECT_EQ(value("0." + std::string(400, '0') + "1"), 0.0);
  EXPECT_EQ(value("1" + std::string(400, '0') + "e-400"), 1.0);
  EXPECT_EQ(value("5e-324"), 5e-324);
  EXPECT_EQ(value("1.7976931348623157e308"), 1.7976931348623157e308);
  for (const char* bad : {"1e309", "-1e400", "1e999999999999999999999", "NaN", "Infinity", "1.", ".5", "+1",
                          "007", "1e", "1e+", "-", "0x10", "\"1\"", "true", "1.5.2", "--1"}) {
    EXPECT_FALSE(reads(norm(bad))) << bad;
  }
  EXPECT_FALSE(reads(norm("1" + std::string(400, '0'))));
}

TEST_F(LineReaderTest, UnknownFieldsAreSkippedButMustBeJson) {
  EXPECT_TRUE(reads(span(R"(,"x":{"a":[1,-2.5,"é\u00e9",null,true,{}],"a":1},"x":[],"param_key":0)")));
  for (const char* bad : {R"(,"x":[1,])",
                          R"(,"x":[,1])",
                          R"(,"x":{"a"})",
                          R"(,"x":{"a":})",
                          R"(,"x":{,})",
                          R"(,"x":{"a":1,})",
                          R"(,"x":nul)",
                          R"(,"x":truex)",
                          R"(,"x":01)",
                          R"(,"x":1e999)",
                          R"(,"x":"\q")",
                          R"(,"x":"\ud800")",
                          R"(,"x":"\udc00")",
                          R"(,"x":"\u12")",
                          R"(,"x":[1 2])",
                          R"(,"x":"a" "b")",
                          R"(,"x":{"a":1]})",
                          R"(,"x":[1})",
                          R"(,"x":)",
                          R"(,"x")",
                          ",",
                          R"(,"\ud800":1)",
                          R"(,"x":{"\ud800":1})",
                          R"(,x:1)",
                          R"(,"x":'a')",
                          R"(,"x":-)",
                          R"(,"x":"a"1)",
                          R"(,"x":1"a")"}) {
    EXPECT_FALSE(reads(span(bad))) << bad;
  }
}

TEST_F(LineReaderTest, KnownFieldsGivenTwiceAreRefusedEvenWhenSpeltWithEscapes) {
  EXPECT_EQ(read(span(R"(,"id":"a")")), "field \"id\" is given twice");
  EXPECT_EQ(read(span(R"(,"\u0069d":"a")")), "field \"id\" is given twice");
  EXPECT_EQ(read(span(R"(,"kind":"span_start")")), "field \"kind\" is given twice");
  EXPECT_TRUE(
      reads(R"({"k\u0069nd":"span_start","\u0069d":"a","name":"n","start_ns":1,"span_kind":"\u006fp"})"));
}

TEST_F(LineReaderTest, FieldNamesMatchExactly) {
  EXPECT_EQ(read(R"({"kind":"span_start","id":"a","names":"n","start_ns":1,"span_kind":"op"})"),
            "span_start: field \"name\" is missing");
  EXPECT_FALSE(reads(R"({"kind":"span_start","id":"a","nam":"n","start_ns":1,"span_kind":"op"})"));
  EXPECT_FALSE(reads(R"({"kind":"span_start","id":"a","Name":"n","start_ns":1,"span_kind":"op"})"));
}

TEST_F(LineReaderTest, TextsAreUnescaped) {
  ASSERT_EQ(
      read(
          R"({"kind":"op","span_id":"s","op_name":"o","inputs":["a\"b","\\","\u00e9\ud83d\udd25","\/\b"],"shape":[],"dtype":"f32","device":"cpu","duration_ns":1,"input_dense_bytes":0})"),
      "");
  EXPECT_EQ(seen.text, "a\"b;\\;é🔥;/\b;");
}

TEST_F(LineReaderTest, ExtIsHandedOutAsItIsWritten) {
  ASSERT_EQ(read(span(R"(, "ext" : { "a" : [1, 2] ,"b":"}" }  )")), "");
  EXPECT_EQ(seen.ext, R"({ "a" : [1, 2] ,"b":"}" })");
  ASSERT_EQ(read(span(R"(,"ext":{},"z":1)")), "");
  EXPECT_EQ(seen.ext, "{}");
}

TEST_F(LineReaderTest, AnExtThatIsNoObjectIsAnUnknownField) {
  for (const char* other : {"null", "5", "[{}]", "\"x\""}) {
    ASSERT_EQ(read(span(std::string(R"(,"ext":)") + other)), "") << other;
    EXPECT_EQ(seen.ext, "");
  }
}

TEST_F(LineReaderTest, NestingEndsAt127Containers) {
  const auto nested = [](int containers) {
    return std::string(static_cast<std::size_t>(containers), '[') +
           std::string(static_cast<std::size_t>(containers), ']');
  };
  EXPECT_TRUE(reads(span(",\"x\":" + nested(126))));
  EXPECT_FALSE(reads(span(",\"x\":" + nested(127))));
  EXPECT_FALSE(reads(span(",\"ext\":{\"x\":" + nested(126) + "}")));
  EXPECT_FALSE(reads(span(",\"x\":" + nested(3000))));
}

TEST_F(LineReaderTest, NestingCountsTheObjectsOfTheMetaRecord) {
  const auto meta = [](int containers) {
    return R"({"kind":"meta","schema":"candle-graph/trace/10","run_id":"r","correlation_id":"c","entrypoint":"e","phase":"infer","timestamp":"t","capture_step":1,"warmup_steps":0,"device":"cpu","timing_mode":"host","tags":{},"capture_contract":{"measurement_scope":"unknown","operations":"none","logical_memory":"none","physical_memory":"none","device_timing":"none","gradient_contract":{"manifest_sha256":"","families":[],"expected":[{"root":"r","key":"k","family":"f","x":)" +
           std::string(static_cast<std::size_t>(containers), '[') +
           std::string(static_cast<std::size_t>(containers), ']') + "}]}}}";
  };
  EXPECT_EQ(read(meta(122)), "");  // record, contract, gradient contract, list, entry: 5
  ASSERT_TRUE(seen.meta);
  EXPECT_EQ(seen.meta->capture_contract.gradient_contract->expected[0].family, "f");
  EXPECT_FALSE(reads(meta(123)));
}

TEST_F(LineReaderTest, OneObjectPerLineAndOnlyWhiteSpaceAroundIt) {
  EXPECT_TRUE(reads(span("") + "\r\n"));
  EXPECT_TRUE(reads(" \t" + span("") + "\xE2\x80\x83\xC2\x85\xC2\xA0\xE3\x80\x80"));
  for (const std::string& bad :
       {span("") + "x", span("") + span(""), span("") + ",", "\xEF\xBB\xBF" + span(""), "[" + span("") + "]",
        std::string("5"), std::string("\"a\""), std::string("null"), std::string("{"), std::string("{}"),
        std::string(""), std::string("  "), span("").substr(0, 40), span("") + "}", "{" + span("")}) {
    EXPECT_FALSE(reads(bad)) << bad;
  }
}

TEST_F(LineReaderTest, WithinTheObjectOnlyFourCharactersAreWhiteSpace) {
  EXPECT_TRUE(reads(
      " {\t\"kind\" :\r\"span_end\" , \"id\": \"a\" ,\t\"duration_ns\":\t5\r , \"x\" : [ 1 , true\t] } "));
  for (const char* other : {"\v", "\f", "\xC2\xA0", "\xE3\x80\x80", "\x1A", "\b"}) {
    const std::string space(other);
    EXPECT_FALSE(reads(start("1" + space)));
    EXPECT_FALSE(reads(start(space + "1")));
    EXPECT_FALSE(reads(norm("1.5" + space)));
    EXPECT_FALSE(reads(span(",\"x\":true" + space)));
    EXPECT_FALSE(reads(span(",\"x\":1" + space)));
    EXPECT_FALSE(reads(span(",\"x\":\"a\"" + space)));
    EXPECT_FALSE(reads(span("," + space + "\"x\":1")));
    EXPECT_FALSE(reads(span(",\"measured\":true" + space)));
    EXPECT_FALSE(reads(span(",\"step\":null" + space)));
  }
}

TEST_F(LineReaderTest, BytesThatAreNotUtf8AndRawControlCharactersAreRefused) {
  EXPECT_EQ(read(span(",\"x\":\"\xFF\"")), "the line is not valid UTF-8");
  EXPECT_FALSE(reads(span(",\"x\":\"\xED\xA0\x80\"")));
  EXPECT_EQ(read(span(",\"x\":\"\t\"")), "a control character in a text is not escaped");
  EXPECT_FALSE(reads(span(std::string_view(",\"x\":\"\0\"", 8))));
}

TEST_F(LineReaderTest, EdgesHaveTheFieldsOfTheirKind) {
  ASSERT_EQ(
      read(
          R"({"from_tensor":"a","kind":"edge","to_tensor":"b","edge_kind":"data","from_span":5,"from_span":6})"),
      "");
  EXPECT_EQ(seen.text, "a>b");
  ASSERT_EQ(read(R"({"kind":"edge","edge_kind":"call","from_span":"a","to_span":"b","host_duration_ns":4})"),
            "");
  EXPECT_EQ(seen.edge->host_duration_ns, 4u);
  EXPECT_FALSE(reads(R"({"kind":"edge","edge_kind":"call","from_span":"a","to_span":"b"})"));
  EXPECT_FALSE(reads(R"({"kind":"edge","from_tensor":"a","to_tensor":"b"})"));
  EXPECT_FALSE(
      reads(R"({"kind":"edge","edge_kind":"data","edge_kind":"data","from_tensor":"a","to_tensor":"b"})"));
}

TEST_F(LineReaderTest, OfARepeatedTagTheLastCounts) {
  ASSERT_EQ(
      read(
          R"({"kind":"meta","schema":"s","run_id":"r","correlation_id":"c","entrypoint":"e","phase":"train","timestamp":"t","capture_step":1,"warmup_steps":0,"device":"cpu","timing_mode":"host","tags":{"a":"1","kind":"x","a":"2"},"capture_contract":{"measurement_scope":"unknown","operations":"none","logical_memory":"none","physical_memory":"none","device_timing":"none"}})"),
      "");
  EXPECT_EQ(seen.meta->tags.at("a"), "2");
  EXPECT_EQ(seen.meta->tags.size(), 2u);
}

TEST_F(LineReaderTest, ErrorsNameTheFieldAndThePlace) {
  Seen nobody;
  const Status status = reader.read(start("-1"), Place{4, 7, 99}, nobody);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kRejected);
  EXPECT_EQ(status.error().line, 7u);
  EXPECT_EQ(status.error().byte_offset, 99u);
  EXPECT_EQ(status.error().message, "field \"start_ns\" must be an integer from 0 to 18446744073709551615");
  EXPECT_EQ(read(R"({"kind":"marker"})"), "kind \"marker\" is none of trace/10's twelve");
  EXPECT_EQ(read(span(R"(,"step":"Forward")")), "field \"step\" must be one of forward, backward, optimizer");
}

TEST_F(LineReaderTest, AReaderGoesOnAfterABadLineAndAfterAVeryLongOne) {
  EXPECT_FALSE(reads("{\"kind\":"));
  EXPECT_TRUE(reads(span("")));
  const std::string text(3'000'000, 'x');
  ASSERT_EQ(read(R"({"kind":"span_start","id":"a","name":")" + text + R"(","start_ns":1,"span_kind":"op"})"),
            "");
  EXPECT_EQ(seen.text, text);
  EXPECT_TRUE(reads(span("")));
}

TEST(KindReader, TellsTheKindWithoutJudgingTheRecord) {
  KindReader kinds;
  EXPECT_EQ(kinds.kind(R"({"kind":"op","span_id":5})"), "op");
  EXPECT_EQ(kinds.kind("  {\"x\":[1,{\"kind\":\"no\"}],\"kind\":\"terminal\"}\r\n"), "terminal");
  EXPECT_EQ(kinds.kind(R"({"kind":"hello","version":1})"), "hello");
  EXPECT_EQ(kinds.kind(R"({"kind":5})"), "");
  EXPECT_EQ(kinds.kind(R"({"x":1})"), "");
  EXPECT_EQ(kinds.kind("[]"), "");
  EXPECT_EQ(kinds.kind(""), "");
  EXPECT_EQ(kinds.kind("{\"kind\":\"op\",\"x\":\"\xFF\"}"), "") << "not UTF-8";
}

}  // namespace
}  // namespace tensortap::format
