#include "tests/unit/analyzers/support.h"

namespace tensortap::analyzers::testing {
namespace {

std::string step_name(std::uint64_t number) {
  std::string digits = std::to_string(number);
  return "step-" + std::string(12 - digits.size(), '0') + digits;
}

// A step of `duration` with forward, backward and optimizer of 10, 20 and 5 (scaled), and a module in its
// forward.
void add_step(Trace& trace, std::uint64_t number, std::uint64_t start, std::uint64_t duration) {
  const std::string id = "s1." + std::to_string(100 * number + 10);
  const auto part = [&](int n) {
    return "s1." + std::to_string(100 * number + 10 + static_cast<std::uint64_t>(n));
  };
  trace.span(id, "w", step_name(number), start, "function",
             R"(,"ext":{"thread":1,"step_number":)" + std::to_string(number) + "}");
  trace.span(part(1), id, "net", start + 1, "module", R"(,"step":"forward","ext":{"thread":1,"type":"Net"})");
  trace.span(part(2), part(1), "net.fc", start + 2, "module",
             R"(,"step":"forward","ext":{"thread":1,"type":"Linear"})");
  trace.op(part(2), "aten::addmm", start + 3, 4).end(part(2), 6).end(part(1), 10);
  trace.span(part(3), id, "backward", start + 12, "function", R"(,"step":"backward","ext":{"thread":1})");
  trace.span(part(4), part(3), "autograd::engine::evaluate_function: X", start + 13, "function",
             R"(,"step":"backward","ext":{"thread":1})");
  trace.end(part(4), 5).end(part(3), 20);
  trace.span(part(5), id, "Optimizer.step", start + 33, "function",
             R"(,"step":"optimizer","ext":{"thread":1})");
  trace.end(part(5), 5).end(id, duration);
}

TEST(Timing, StepsHaveStatisticsAndABreakdown) {
  Trace trace;
  add_step(trace, 0, 100, 60);
  add_step(trace, 1, 200, 50);
  add_step(trace, 2, 300, 70);
  add_step(trace, 3, 400, 41);
  const auto report = trace.finish(1000).report();
  EXPECT_EQ(number_at(report, "/timing/steps/complete/value"), 4U);
  EXPECT_EQ(number_at(report, "/timing/steps/min/value"), 41U);
  EXPECT_EQ(number_at(report, "/timing/steps/median/value"), 55U);
  EXPECT_EQ(number_at(report, "/timing/steps/mean/value"), 55U);
  EXPECT_EQ(number_at(report, "/timing/steps/max/value"), 70U);
  EXPECT_EQ(number_at(report, "/timing/steps/forward/value"), 40U);
  EXPECT_EQ(number_at(report, "/timing/steps/backward/value"), 80U);
  EXPECT_EQ(number_at(report, "/timing/steps/optimizer/value"), 20U);
  EXPECT_EQ(number_at(report, "/timing/steps/other/value"), 221U - 140U);
  const auto list = items(report, "/timing/steps/list/rows");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(number(list[2].as_object(), "duration"), 70U);
  EXPECT_EQ(number(list[2].as_object(), "other"), 35U);
  EXPECT_EQ(text(report, "/timing/steps/mean/status"), "complete");
}

TEST(Timing, ModulesHaveTypeTotalAndSelf) {
  Trace trace;
  add_step(trace, 0, 100, 60);
  add_step(trace, 1, 200, 60);
  const auto report = trace.finish(1000).report();
  const auto net = row(report, "/timing/modules", "net");
  EXPECT_EQ(net.at("type").as_string(), "Net");
  EXPECT_EQ(number(net, "calls"), 2U);
  EXPECT_EQ(number(net, "total"), 20U);
  EXPECT_EQ(number(net, "self"), 8U);
  EXPECT_EQ(number(row(report, "/timing/modules", "net.fc"), "self"), 4U);
  // Steps, the root and the window are no ranges.
  EXPECT_EQ(items(report, "/timing/ranges/rows").size(), 3U);
}

TEST(Timing, AStepThatTheJobDiedInIsOpenAndNotTimed) {
  Trace trace;
  add_step(trace, 0, 100, 60);
  trace.span("s1.900", "w", step_name(1), 200, "function", R"(,"ext":{"step_number":1})")
      .op("s1.900", "aten::add", 210, 30);
  const auto report = trace.fail(240, "killed by SIGKILL").report();
  EXPECT_EQ(number_at(report, "/timing/steps/complete/value"), 1U);
  EXPECT_EQ(number_at(report, "/timing/steps/open/value"), 1U);
  EXPECT_EQ(number_at(report, "/timing/steps/max/value"), 60U);
  EXPECT_EQ(text(report, "/timing/steps/max/status"), "partial");
  EXPECT_EQ(number(row(report, "/timing/operators", "aten::add"), "calls"), 1U);
  EXPECT_EQ(number_at(report, "/timing/duration/value"), 240U);
  EXPECT_EQ(text(report, "/timing/duration/status"), "partial");
}

TEST(Timing, WhatTheWindowsEndCutIsCountedAndNotTimed) {
  Trace trace;
  trace.span("s1.1", "w", step_name(0), 10, "function", R"(,"ext":{"step_number":0})");
  trace.span("s1.2", "s1.1", "net", 20, "module").end("s1.2", 80, R"(,"ext":{"cut":"stop"})");
  trace.end("s1.1", 90, R"(,"ext":{"cut":"stop"})");
  const auto report = trace.finish(100).report();
  EXPECT_EQ(number_at(report, "/timing/steps/cut/value"), 1U);
  EXPECT_TRUE(at(report, "/timing/steps/max/value").is_null());
  const auto net = row(report, "/timing/modules", "net");
  EXPECT_EQ(number(net, "calls"), 1U);
  EXPECT_EQ(number(net, "cut"), 1U);
  EXPECT_EQ(number(net, "total"), 0U);
}

TEST(Timing, UnknownIsNeverZero) {
  const auto report = Trace("{}", "none").finish(100).report();
  EXPECT_TRUE(at(report, "/counts/operators/value").is_null());
  EXPECT_EQ(text(report, "/counts/operators/status"), "unavailable");
  EXPECT_TRUE(at(report, "/memory/peak/live/value").is_null());
  EXPECT_TRUE(at(report, "/timing/steps/mean/value").is_null());
  // No operator where all are claimed to be there is a zero.
  EXPECT_EQ(number_at(Trace("{}", "complete").finish(100).report(), "/counts/operators/value"), 0U);
}

TEST(Timing, DropsAndPartialCoverageMakeFiguresPartial) {
  const auto status = [](Trace trace) { return text(trace.report(), "/counts/operators/status"); };
  EXPECT_EQ(status(Trace().op("w", "add", 1, 1).finish(9)), "complete");
  EXPECT_EQ(status(Trace("{}", "partial").op("w", "add", 1, 1).finish(9)), "partial");
  EXPECT_EQ(status(Trace()
                       .op("w", "add", 1, 1)
                       .finish(9, R"({"ledger":{"offered":9,"stored":6,"dropped":{"ring_full":3}}})")),
            "partial");
  EXPECT_EQ(status(Trace().op("w", "add", 1, 1).finish(9, R"({"ledger":{"unknown_tail_bytes_max":10}})")),
            "partial");
  EXPECT_EQ(status(Trace().op("w", "add", 1, 1).finish(9, R"({"ledger":{"unknown_tail_bytes_max":null}})")),
            "partial");
  EXPECT_EQ(status(Trace().op("w", "add", 1, 1).fail(9, "x")), "partial");
}

TEST(Timing, HugeDurationsSaturate) {
  Trace trace;
  const std::uint64_t most = ~std::uint64_t{0};
  trace.op("w", "add", 5, most).op("w", "add", 6, most);
  const auto report = trace.finish(100).report();
  EXPECT_EQ(number(row(report, "/timing/operators", "add"), "total"), most);
}

TEST(Timing, TheSameLinesGiveTheSameBytesHoweverTheyCome) {
  Trace trace;
  for (std::uint64_t i = 0; i < 20; ++i) add_step(trace, i, 100 * (i + 1), 60);
  trace.finish(5000);
  Analysis whole;
  whole.consume_lines(trace.text());
  Analysis piecewise;
  std::string_view rest = trace.text();
  while (!rest.empty()) {
    const std::size_t line = rest.find('\n') + 1;
    piecewise.consume_lines(rest.substr(0, line));
    piecewise.report();  // reports on the way change nothing
    rest.remove_prefix(line);
  }
  EXPECT_EQ(boost::json::serialize(whole.report()), boost::json::serialize(piecewise.report()));
}

TEST(Timing, AReplacedMetaLineCountsForTheReport) {
  Trace partial(R"({"producer":"tensortap 0"})", "partial");
  partial.op("w", "add", 1, 1).finish(9);
  Analysis analysis;
  analysis.consume_lines(partial.text());
  EXPECT_EQ(text(analysis.report(), "/counts/operators/status"), "partial");
  const std::string complete = Trace().text();
  analysis.replace_meta(std::string_view(complete).substr(0, complete.find('\n') + 1));
  EXPECT_EQ(text(analysis.report(), "/counts/operators/status"), "complete");
}

}  // namespace
}  // namespace tensortap::analyzers::testing
