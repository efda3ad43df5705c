#include <gtest/gtest.h>

#include "analyzers/render/json.h"
#include "analyzers/render/table.h"
#include "analyzers/render/text.h"
#include "analyzers/render/units.h"
#include "tests/unit/analyzers/support.h"

namespace tensortap::analyzers::testing {
namespace {

TEST(Units, DurationsHaveThreeDigitsAndTheRightUnit) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(1000), "1.00 µs");
  EXPECT_EQ(duration_text(1240000), "1.24 ms");
  EXPECT_EQ(duration_text(12400000), "12.4 ms");
  EXPECT_EQ(duration_text(999499999), "999 ms");
  EXPECT_EQ(duration_text(999500000), "1.00 s");
  EXPECT_EQ(duration_text(9996000), "10.0 ms");
  EXPECT_EQ(duration_text(119000000000), "119 s");
  EXPECT_EQ(duration_text(185000000000), "3 min 05 s");
  EXPECT_EQ(duration_text(7380000000000), "2 h 03 min");
  EXPECT_EQ(duration_text(~std::uint64_t{0}), "5124095 h 34 min");
}

TEST(Units, BytesAreBinaryAndNeverFourDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(3250586), "3.10 MiB");
  EXPECT_EQ(bytes_text(1048064), "1.00 MiB");
  EXPECT_EQ(bytes_text(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Units, CountsAreInThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(12345), "12 345");
  EXPECT_EQ(count_text(1234567), "1 234 567");
  EXPECT_EQ(share_text(1, 3), "33.3%");
  EXPECT_EQ(share_text(1, 0), "");
}

TEST(Table, LongNamesAreCutInTheirMiddle) {
  EXPECT_EQ(cut_middle("aten::convolution_backward_overrideable", 20), "aten::conv…rrideable");
  EXPECT_EQ(display_width(cut_middle("größe-größe-größe-größe", 10)), 10U);
  EXPECT_EQ(cut_middle("short", 20), "short");
}

TEST(Table, NoLineIsWiderThanTheTerminal) {
  Table table({"name", "calls", "time"});
  table.add({std::string(300, 'n'), "12 345", "1.24 ms"});
  table.add({"x", "1", "124 ms"});
  const std::string text = table.render(60, Style{});
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(display_width(std::string_view(text).substr(begin, end - begin)), 60U);
    begin = end + 1;
  }
}

TEST(Table, ControlCharactersOfNamesCannotSteerTheTerminal) {
  EXPECT_EQ(printable("a\u202Eb\u2066c\u200F\u2013"), "a\uFFFDb\uFFFDc\uFFFD\u2013");
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f\xc2\x9b"
                      "c"),
            "a\uFFFD[2Jb\uFFFD\uFFFD\uFFFDc");
  const auto report = Trace()
                          .op("w", "evil\x1b]0;x\x07", 1, 1)
                          .span("s1.1", "w", "\x1b[31m", 3)
                          .end("s1.1", 1)
                          .finish(9)
                          .report();
  EXPECT_EQ(render_text(report).find('\x1b'), std::string::npos);
}

TEST(Text, ColoursOnlyWhenAskedFor) {
  const auto report = Trace().op("w", "add", 1, 1).finish(9).report();
  EXPECT_EQ(render_text(report).find('\x1b'), std::string::npos);
  TextOptions options;
  options.colour = true;
  EXPECT_NE(render_text(report, options).find('\x1b'), std::string::npos);
}

TEST(Text, AnyReportCanBeRendered) {
  EXPECT_NE(render_text({}).find("tensortap report"), std::string::npos);
  EXPECT_NE(render_text(Analysis().report()).find("outcome"), std::string::npos);
}

TEST(Json, IsTheReportAgain) {
  const auto report = Trace().op("w", "a\"b\n", 1, 1).memory("alloc", "a", 5, 10).finish(9).report();
  const std::string text = report_json(report);
  EXPECT_EQ(boost::json::parse(text), boost::json::value(report));
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace tensortap::analyzers::testing
