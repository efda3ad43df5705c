#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "format/line_writer.h"

namespace tensortap::format {
namespace {

std::string number_text(double value) {
  std::string out;
  append_json_number(out, value);
  return out;
}

std::string string_text(std::string_view text, std::uint64_t* replaced = nullptr) {
  std::string out;
  const std::uint64_t count = append_json_string(out, text);
  if (replaced != nullptr) *replaced = count;
  return out;
}

TEST(JsonNumber, FloatsAreShortestWithThePointWhereTheFormatWantsIt) {
  EXPECT_EQ(number_text(1.0), "1.0");
  EXPECT_EQ(number_text(0.0), "0.0");
  EXPECT_EQ(number_text(-0.0), "-0.0");
  EXPECT_EQ(number_text(0.00001), "0.00001");
  EXPECT_EQ(number_text(0.000012), "0.000012");
  EXPECT_EQ(number_text(1e-6), "1e-6");
  EXPECT_EQ(number_text(-1.25e-6), "-1.25e-6");
  EXPECT_EQ(number_text(1e15), "1000000000000000.0");
  EXPECT_EQ(number_text(1e16), "1e+16");
  EXPECT_EQ(number_text(1.5e17), "1.5e+17");
  EXPECT_EQ(number_text(5e-324), "5e-324");
  EXPECT_EQ(number_text(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(number_text(123.456), "123.456");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1234567890123456.0), "1234567890123456.0");
}

TEST(JsonNumber, NonFiniteFloatsAreNull) {
  EXPECT_EQ(number_text(std::nan("")), "null");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonNumber, IntegersReachBothEndsOfTheirRange) {
  std::string out;
  append_json_number(out, std::numeric_limits<std::uint64_t>::max());
  out += ' ';
  append_json_number(out, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(out, "18446744073709551615 -9223372036854775808");
}

TEST(JsonString, EscapesWhatJsonForbidsAndNothingElse) {
  EXPECT_EQ(string_text("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(string_text(std::string_view("\b\f\n\r\t\0\x1f\x7f", 8)),
            "\"\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\"");
  EXPECT_EQ(string_text("é€🔥"), "\"é€🔥\"");
}

TEST(JsonString, BytesThatAreNotUtf8BecomeReplacementCharactersAndAreCounted) {
  std::uint64_t replaced = 0;
  EXPECT_EQ(string_text("a\xFFz", &replaced), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(replaced, 1u);
  string_text("\xC3", &replaced);  // cut sequence
  EXPECT_EQ(replaced, 1u);
  string_text("\xE2\x82", &replaced);
  EXPECT_EQ(replaced, 2u);
  string_text("\xED\xA0\x80", &replaced);  // surrogate
  EXPECT_EQ(replaced, 3u);
  string_text("\xC0\xAF", &replaced);  // overlong
  EXPECT_EQ(replaced, 2u);
  string_text("\xF4\x90\x80\x80", &replaced);  // above U+10FFFF
  EXPECT_EQ(replaced, 4u);
  string_text("\xF4\x8F\xBF\xBF \xEE\x80\x80 \xE0\xA0\x80 \xF0\x90\x80\x80", &replaced);
  EXPECT_EQ(replaced, 0u);
}

TEST(LineWriter, WritesFieldsInTheFormatsOrderAndLeavesOutWhatIsEmpty) {
  std::string out;
  LineWriter writer(out);
  writer.write(
      SpanStart{"s1.2", "s0.1", "conv1", 5, SpanKind::kModule, false, Step::kForward, R"({"thread":1})"});
  writer.write(SpanStart{"s0.1", {}, "main", 0, SpanKind::kFunction, true, {}, ""});
  writer.write(SpanEnd{"s1.2", 7, ""});
  Op op;
  op.span_id = "s1.2";
  op.op_name = "aten::mm";
  op.inputs = {"t1", "t2"};
  op.output = "t3";
  op.shape = {2, 3};
  op.dtype = "f32";
  op.device = "cpu";
  op.duration_ns = 4;
  op.timestamp_ns = 6;
  op.output_dense_bytes = 24;
  op.input_dense_bytes = 64;
  writer.write(op);
  writer.write(Edge{Edge::Kind::kCall, "a", "b", 3, ""});
  writer.write(Edge{Edge::Kind::kData, "t1", "t2", 0, ""});
  writer.write(Terminal{Outcome::kFailed, 9, "killed by signal 9", ""});
  EXPECT_EQ(
      out,
      R"({"kind":"span_start","id":"s1.2","parent_id":"s0.1","name":"conv1","start_ns":5,"span_kind":"module","measured":false,"step":"forward","ext":{"thread":1}}
{"kind":"span_start","id":"s0.1","name":"main","start_ns":0,"span_kind":"function","measured":true}
{"kind":"span_end","id":"s1.2","duration_ns":7}
{"kind":"op","span_id":"s1.2","op_name":"aten::mm","inputs":["t1","t2"],"output":"t3","shape":[2,3],"dtype":"f32","device":"cpu","duration_ns":4,"timestamp_ns":6,"output_dense_bytes":24,"input_dense_bytes":64}
{"kind":"edge","edge_kind":"call","from_span":"a","to_span":"b","host_duration_ns":3}
{"kind":"edge","edge_kind":"data","from_tensor":"t1","to_tensor":"t2"}
{"kind":"terminal","outcome":"failed","timestamp_ns":9,"reason":"killed by signal 9"}
)");
}

TEST(LineWriter, CountsReplacedBytesOverAllLines) {
  std::string out;
  LineWriter writer(out);
  writer.write(SpanEnd{"\xFF\xFE", 0, ""});
  writer.write(SpanEnd{"\xFF", 0, ""});
  EXPECT_EQ(writer.replaced_bytes(), 3u);
}

}  // namespace
}  // namespace tensortap::format
