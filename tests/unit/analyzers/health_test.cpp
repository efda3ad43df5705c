#include "tests/unit/analyzers/support.h"

namespace tensortap::analyzers::testing {
namespace {

std::uint64_t issue(const boost::json::object& report, std::string_view code) {
  for (const auto& item : items(report, "/health/issues")) {
    if (item.at("code") == boost::json::value(code)) return number(item.as_object(), "count");
  }
  return 0;
}

TEST(Health, ASpanThatNeverEndedIsOpenAndHasNoDuration) {
  const auto report =
      Trace().span("s1.1", "w", "stuck", 40).op("s1.1", "add", 50, 5).fail(60, "killed by SIGKILL").report();
  EXPECT_EQ(number_at(report, "/health/open_spans"), 3U);
  const auto open = items(report, "/health/open");
  ASSERT_EQ(open.size(), 3U);
  EXPECT_EQ(open[2].at("name").as_string(), "stuck");
  EXPECT_FALSE(open[2].as_object().contains("duration"));
  EXPECT_TRUE(row(report, "/timing/ranges", "stuck").empty());
  EXPECT_TRUE(at(report, "/health/no_errors_found").as_bool()) << "open spans of a failed run are no error";
  EXPECT_EQ(text(report, "/run/reason"), "killed by SIGKILL");
}

TEST(Health, ReferencesToSpansThatNeverComeAreErrorsWithTheirPlace) {
  const auto report =
      Trace().op("ghost", "add", 1, 1).span("s1.1", "phantom", "x", 1).end("s1.1", 1).finish(9).report();
  EXPECT_EQ(issue(report, "unknown_span"), 1U);
  EXPECT_EQ(issue(report, "unknown_parent"), 1U);
  EXPECT_FALSE(at(report, "/health/no_errors_found").as_bool());
  EXPECT_EQ(number_at(report, "/health/issues/1/first_record"), 3U);
  EXPECT_EQ(number_at(report, "/counts/unattributed/value"), 1U);
}

TEST(Health, WhatReachesOutOfItsSpanIsFound) {
  const auto report = Trace()
                          .span("s1.1", "w", "p", 100)
                          .span("s1.2", "s1.1", "early", 90)
                          .end("s1.2", 20)
                          .op("s1.1", "late", 150, 100)
                          .memory("alloc", "a", 260, 1, "s1.1")
                          .end("s1.1", 100)
                          .finish(900)
                          .report();
  EXPECT_EQ(issue(report, "child_outside_parent"), 1U);
  EXPECT_EQ(issue(report, "operation_outside_span"), 1U);
  EXPECT_EQ(issue(report, "memory_outside_span"), 1U);
}

// kineto 109
TEST(Health, ImpossibleTimestampsAreCountedAndStretchNothing) {
  Trace trace;
  trace.span("s1.1", "w", "p", 100)
      .op("s1.1", "zero", 0, 10)
      .op("s1.1", "far", std::uint64_t{1} << 61, 10)
      .op("s1.1", "good", 120, 10);
  const auto report = trace.end("s1.1", 100).fail(300, "x").report();
  EXPECT_EQ(issue(report, "timestamp_zero"), 1U);
  EXPECT_EQ(issue(report, "timestamp_far_future"), 1U);
  EXPECT_EQ(number_at(report, "/timing/duration/value"), 200U);
  const auto range = row(report, "/timing/ranges", "p");
  EXPECT_EQ(number(range, "total"), 100U);
  EXPECT_EQ(number(range, "self"), 90U);
  EXPECT_EQ(number(row(report, "/timing/operators", "far"), "total"), 10U);
}

TEST(Health, NotSeenListsDiagnosticsAndDropsAndLeavesOutPlainFacts) {
  const auto report =
      Trace(
          R"({"producer":"tensortap 0","diagnostics":{"before_window":4,"python_hooks":1,"cut_at_stop":0,"odd":2}})")
          .finish(
              9,
              R"({"ledger":{"offered":10,"stored":7,"dropped":{"ring_full":3},"unknown_tail_bytes_max":0}})")
          .report();
  const boost::json::array list = items(report, "/health/not_seen/items");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].at("code").as_string(), "before_window");
  EXPECT_EQ(list[1].at("code").as_string(), "odd");
  EXPECT_EQ(list[2].at("code").as_string(), "ring_full");
  EXPECT_EQ(number_at(report, "/health/not_seen/ledger/offered"), 10U);
}

TEST(Health, BadLinesAreCountedAndTheRestIsUsed) {
  Trace trace;
  trace.op("w", "add", 1, 1).line("{not json").line(R"({"kind":"marker"})").op("w", "add", 2, 1).finish(9);
  Analysis analysis;
  analysis.consume_lines(trace.text());
  const auto report = analysis.report();
  EXPECT_EQ(number_at(report, "/input/bad_lines"), 2U);
  EXPECT_EQ(number_at(report, "/counts/operators/value"), 2U);
  EXPECT_EQ(text(report, "/counts/operators/status"), "partial");
}

TEST(Health, ATraceWithoutEndSaysSo) {
  const auto report = Trace().op("w", "add", 1, 1).report();
  EXPECT_EQ(text(report, "/run/outcome"), "unknown");
  EXPECT_EQ(issue(report, "missing_terminal"), 1U);
  EXPECT_EQ(text(report, "/counts/operators/status"), "partial");
}

TEST(Health, RepeatedIdsAndEndsWithoutStartAreIgnoredAndCounted) {
  const auto report = Trace()
                          .span("s1.1", "w", "a", 1)
                          .end("s1.1", 5)
                          .span("s1.1", "w", "b", 7)
                          .end("s1.1", 1)
                          .end("s9.9", 1)
                          .finish(99)
                          .report();
  EXPECT_EQ(issue(report, "duplicate_span_id"), 1U);
  EXPECT_EQ(issue(report, "duplicate_span_end"), 1U);
  EXPECT_EQ(issue(report, "span_end_without_start"), 1U);
  EXPECT_EQ(number(row(report, "/timing/ranges", "a"), "total"), 5U);
}

TEST(Health, FactsForTheDaemonsTerminalHoldTheGreatestTime) {
  Trace trace;
  trace.span("s1.1", "w", "backward", 40, "function", R"(,"step":"backward")")
      .op("s1.1", "add", 50, 25)
      .memory("alloc", "a", 60, 1);
  Analysis analysis;
  analysis.consume_lines(trace.text());
  const Analysis::Facts facts = analysis.facts();
  EXPECT_EQ(facts.latest_ns, 75U);
  EXPECT_EQ(facts.open_spans, 3U);
  EXPECT_EQ(facts.operations, 1U);
  EXPECT_EQ(facts.memory_events, 1U);
  EXPECT_TRUE(facts.train);
  EXPECT_FALSE(facts.has_terminal);
}

TEST(Health, WhatFollowsTheTerminalRecordIsCountedAsSuchAndChangesNoFigure) {
  Trace once;
  once.span("s", "w", "range", 10).op("s", "add", 20, 5).memory("alloc", "x", 30, 64, "s");
  once.end("s", 50).finish(100);
  Trace twice = once;
  twice.line(once.text().substr(0, once.text().size() - 1));
  twice.op("s", "mul", 5000, 7).memory("alloc", "y", 6000, 1000).fail(9000, "another");
  const auto report = twice.report();
  for (const char* part : {"/run", "/timing", "/memory", "/counts"})
    EXPECT_EQ(at(report, part), at(once.report(), part)) << part;
  EXPECT_EQ(number_at(report, "/health/records/op"), 3U);
  EXPECT_EQ(issue(report, "record_after_terminal"), 13U);
  EXPECT_FALSE(at(report, "/health/no_errors_found").as_bool());

  Analysis analysis;
  analysis.consume_lines(twice.text());
  EXPECT_EQ(analysis.facts().operations, 1U);
  EXPECT_EQ(analysis.facts().latest_ns, 100U);
}

}  // namespace
}  // namespace tensortap::analyzers::testing
