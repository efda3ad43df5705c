// What the call tree makes of records, seen through the timing and counts reports.
#include "tests/unit/analyzers/support.h"

namespace tensortap::analyzers::testing {
namespace {

std::uint64_t operator_figure(const boost::json::object& report, std::string_view name,
                              std::string_view figure) {
  return number(row(report, "/timing/operators", name), figure);
}
std::uint64_t range_figure(const boost::json::object& report, std::string_view name,
                           std::string_view figure) {
  return number(row(report, "/timing/ranges", name), figure);
}

TEST(CallTree, AnOperatorThatCallsOperatorsIsOneCall) {
  const auto report = Trace()
                          .span("s1.1", "w", "aten::linear", 100, "op")
                          .op("s1.1", "aten::t", 110, 20)
                          .op("s1.1", "aten::addmm", 140, 50)
                          .op("s1.1", "aten::linear", 100, 100)
                          .end("s1.1", 100)
                          .finish(1000)
                          .report();
  EXPECT_EQ(number_at(report, "/counts/operators/value"), 3U);
  EXPECT_EQ(number_at(report, "/counts/top_level/value"), 1U);
  EXPECT_EQ(operator_figure(report, "aten::linear", "calls"), 1U);
  EXPECT_EQ(operator_figure(report, "aten::linear", "top_level"), 1U);
  EXPECT_EQ(operator_figure(report, "aten::linear", "total"), 100U);
  EXPECT_EQ(operator_figure(report, "aten::linear", "self"), 30U);
  EXPECT_EQ(operator_figure(report, "aten::addmm", "top_level"), 0U);
  EXPECT_EQ(number_at(report, "/timing/operators/total_self/value"), 100U);
}

TEST(CallTree, TheOwnRecordMayComeAfterTheSpansEnd) {
  const auto report = Trace()
                          .span("s1.1", "w", "aten::linear", 100, "op")
                          .op("s1.1", "aten::addmm", 140, 50)
                          .end("s1.1", 100)
                          .op("s1.1", "aten::linear", 100, 100)
                          .finish(1000)
                          .report();
  EXPECT_EQ(operator_figure(report, "aten::linear", "self"), 50U);
  EXPECT_EQ(number_at(report, "/counts/top_level/value"), 1U);
}

TEST(CallTree, AnOverloadThatCallsItsOwnNameIsTwoCallsAndCountsTimeOnce) {
  const auto report = Trace()
                          .span("s1.1", "w", "aten::div", 100, "op")
                          .op("s1.1", "aten::div", 120, 60)
                          .op("s1.1", "aten::div", 100, 100)
                          .end("s1.1", 100)
                          .finish(1000)
                          .report();
  EXPECT_EQ(operator_figure(report, "aten::div", "calls"), 2U);
  EXPECT_EQ(operator_figure(report, "aten::div", "top_level"), 1U);
  EXPECT_EQ(operator_figure(report, "aten::div", "total"), 100U);
  EXPECT_EQ(operator_figure(report, "aten::div", "self"), 100U);
}

TEST(CallTree, AnOperatorInAnAutogradNodeIsTopLevelAndTheNodeIsNoOperator) {
  const auto report = Trace()
                          .span("s1.1", "w", "autograd::engine::evaluate_function: AddmmBackward0", 0,
                                "function", R"(,"step":"backward")")
                          .span("s1.2", "s1.1", "AddmmBackward0", 10, "function", R"(,"step":"backward")")
                          .op("s1.2", "aten::mm", 20, 30)
                          .end("s1.2", 60)
                          .end("s1.1", 100)
                          .finish(1000)
                          .report();
  EXPECT_EQ(number_at(report, "/counts/operators/value"), 1U);
  EXPECT_EQ(number_at(report, "/counts/top_level/value"), 1U);
  EXPECT_EQ(range_figure(report, "AddmmBackward0", "self"), 30U);
}

TEST(CallTree, ChildrenThatOverlapAreSubtractedOnce) {
  const auto report = Trace()
                          .span("p", "w", "parent", 0)
                          .span("a", "p", "a", 100)
                          .span("b", "p", "b", 150)
                          .end("a", 100)
                          .end("b", 100)
                          .end("p", 400)
                          .finish(1000)
                          .report();
  EXPECT_EQ(range_figure(report, "parent", "self"), 250U);
}

// pytorch 101861: floors and shared borders must not make a self time negative or lose time.
TEST(CallTree, SelfTimesOfNestedSpansAddUpToTheOutermost) {
  const auto report = Trace()
                          .span("g", "w", "G", 0)
                          .span("p", "g", "P", 990)
                          .span("c", "p", "C", 1000)
                          .end("c", 2000)
                          .end("p", 2990)
                          .end("g", 10000)
                          .finish(10000)
                          .report();
  EXPECT_EQ(range_figure(report, "G", "self"), 7010U);
  EXPECT_EQ(range_figure(report, "P", "self"), 990U);
  EXPECT_EQ(range_figure(report, "C", "self"), 2000U);
}

TEST(CallTree, ARecordBeforeItsSpanWaitsForIt) {
  const auto report = Trace(R"({})")
                          .op("p", "add", 30, 10)
                          .span("c", "p", "child", 50)
                          .end("c", 20)
                          .span("p", "w", "parent", 0)
                          .end("p", 100)
                          .finish(1000)
                          .report();
  EXPECT_EQ(range_figure(report, "parent", "self"), 70U);
  EXPECT_EQ(number_at(report, "/counts/top_level/value"), 1U);
  EXPECT_EQ(at(report, "/health/no_errors_found").as_bool(), true);
}

// The order of the crate's own re-serialisation: all spans, then all operators.
TEST(CallTree, OperatorsWrittenAfterAllSpansGiveTheSameTimes) {
  Trace trace(R"({})");
  trace.span("p", "w", "parent", 0).end("p", 100).finish(1000).line("");
  Trace in_order(R"({})");
  in_order.span("p", "w", "parent", 0).op("p", "add", 30, 10).end("p", 100).finish(1000);
  std::string late = trace.text();
  const std::size_t terminal = late.find(R"({"kind":"terminal")");
  late.insert(terminal, in_order.text().substr(in_order.text().find(R"({"kind":"op")"),
                                               in_order.text().find(R"({"kind":"span_end","id":"p")") -
                                                   in_order.text().find(R"({"kind":"op")")));
  Analysis analysis;
  analysis.consume_lines(late);
  EXPECT_EQ(at(analysis.report(), "/timing/ranges"), at(in_order.report(), "/timing/ranges"));
  EXPECT_EQ(range_figure(in_order.report(), "parent", "self"), 90U);
}

TEST(CallTree, AForeignSpanAroundOneOperatorDoesNotHideIt) {
  const auto report = Trace(R"({})")
                          .span("s", "w", "fc1", 10, "op")
                          .op("s", "matmul", 20, 30)
                          .end("s", 50)
                          .finish(100)
                          .report();
  EXPECT_EQ(operator_figure(report, "matmul", "top_level"), 1U);
  EXPECT_EQ(operator_figure(report, "matmul", "top_level_total"), 30U);
  // In our own traces the span is an operator whose record is missing: what it called stays nested.
  const auto own =
      Trace().span("s", "w", "fc1", 10, "op").op("s", "matmul", 20, 30).end("s", 50).finish(100).report();
  EXPECT_EQ(operator_figure(own, "matmul", "top_level"), 0U);
}

TEST(CallTree, EndedSpansAreLetGoAndNothingIsLost) {
  Trace trace;
  const int many = 20000;  // several times what is kept
  for (int i = 0; i < many; ++i) {
    const std::string id = "s1." + std::to_string(i + 1);
    const auto start = static_cast<std::uint64_t>(i) * 100;
    trace.span(id, "w", "outer", start).op(id, "add", start + 10, 20).end(id, 90);
  }
  const auto report = trace.finish(many * 100).report();
  EXPECT_EQ(range_figure(report, "outer", "calls"), 20000U);
  EXPECT_EQ(range_figure(report, "outer", "self"), 20000U * 70U);
  EXPECT_EQ(operator_figure(report, "add", "top_level"), 20000U);
  EXPECT_EQ(at(report, "/health/no_errors_found").as_bool(), true);
  EXPECT_EQ(text(report, "/timing/operators/total_self/status"), "complete");
}

TEST(CallTree, AnOperatorOfASpanThatWasLetGoMakesCountsPartial) {
  Trace trace;
  for (int i = 0; i < 5000; ++i) {
    const std::string id = "s1." + std::to_string(i + 1);
    trace.span(id, "w", "outer", 10).end(id, 1);
  }
  const auto report = trace.op("s1.1", "late", 10, 1).finish(1000).report();
  EXPECT_EQ(number_at(report, "/counts/unattributed/value"), 1U);
  EXPECT_EQ(text(report, "/counts/operators/status"), "partial");
}

TEST(CallTree, ParentsInACircleEndTheWalk) {
  const auto report = Trace(R"({})")
                          .span("a", "b", "a", 0)
                          .span("b", "a", "b", 0)
                          .op("a", "add", 1, 1)
                          .end("a", 5)
                          .end("b", 5)
                          .finish(10)
                          .report();
  EXPECT_EQ(number_at(report, "/counts/operators/value"), 1U);
}

TEST(CallTree, CallsOfOneOperatorKeepTheirThreads) {
  Trace trace;
  for (std::uint64_t i = 0; i < 100; ++i) {
    trace.op("w", "aten::rand", i * 10, 2, R"({"thread":1})")
        .op("w", "aten::add", i * 10 + 2, 2, R"({"thread":1})");
    trace.op("w", "aten::rand", i * 10, 2, R"({"thread":2})")
        .op("w", "aten::mul", i * 10 + 2, 2, R"({"thread":2})");
  }
  const auto report = trace.finish(2000).report();
  const auto threads = items(report, "/timing/threads/rows");
  ASSERT_EQ(threads.size(), 2U);
  for (const auto& thread : threads) {
    EXPECT_EQ(number(thread.as_object(), "top_level"), 200U);
    EXPECT_EQ(number(thread.as_object(), "busy"), 400U);
  }
}

// One operator around spans that are more than were ever walked: it still encloses what is at the bottom.
TEST(CallTree, AnEnclosingOperatorIsFoundHoweverDeepTheSpansAre) {
  Trace trace;
  trace.span("s0", "w", "aten::outer", 5, "op");
  constexpr int kDeep = 20000;
  for (int i = 1; i <= kDeep; ++i) trace.span("s" + std::to_string(i), "s" + std::to_string(i - 1), "f", 5);
  trace.op("s" + std::to_string(kDeep), "aten::outer", 6, 3);
  const auto report = trace.fail(99, "stopped").report();
  EXPECT_EQ(operator_figure(report, "aten::outer", "calls"), 1U);
  EXPECT_EQ(operator_figure(report, "aten::outer", "top_level"), 0U);
  EXPECT_EQ(operator_figure(report, "aten::outer", "total"), 0U) << "a call of the same name encloses it";
}

// Each is the other's parent; whoever would close the ring has none.
TEST(CallTree, SpansThatAreEachOthersParentsAreNoEndlessWay) {
  const auto report = Trace(R"({})")
                          .span("a", "b", "A", 10)
                          .span("b", "a", "B", 20, "op")
                          .op("a", "add", 30, 5)
                          .memory("alloc", "x", 40, 8, "b")
                          .end("b", 50)
                          .end("a", 80)
                          .finish(100)
                          .report();
  EXPECT_EQ(operator_figure(report, "add", "top_level"), 1U);
  EXPECT_EQ(range_figure(report, "A", "self"), 30U);
}

}  // namespace
}  // namespace tensortap::analyzers::testing
