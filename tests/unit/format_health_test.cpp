// Structural health of spans, of what is charged to them, and of edges (specification §3.2, §3.5).
#include <gtest/gtest.h>

#include "tests/unit/format_health.h"

namespace tensortap::format {
namespace {

constexpr auto kAlloc = MemoryAction::kAlloc;
constexpr auto kFree = MemoryAction::kFree;

// Line 1 is the meta record, line 2 the root from 0.
HealthStream with_root(HealthOptions options = {}) {
  HealthStream stream(options);
  stream.meta_record().start("r", std::nullopt, 0, true);
  return stream;
}

TEST(TraceHealth, AWholeTraceHasOnlyWarningsOfWhatIsAbsent) {
  HealthStream stream = with_root();
  stream.end("r", 10).complete(10);
  EXPECT_EQ(stream.issues(), Texts{});
  const Health health = stream.health.finish();
  EXPECT_TRUE(health.structurally_valid);
  EXPECT_TRUE(health.capture_complete);
  EXPECT_EQ(health.errors, 0U);
  EXPECT_EQ(health.warnings, 5U);
  EXPECT_EQ(health.coverage.spans, 1U);
  EXPECT_EQ(health.coverage.closed_spans, 1U);
  EXPECT_TRUE(stream.health.stream_status().ok());
}

TEST(TraceHealth, ATrainingRunIsAskedForItsSteps) {
  HealthStream stream;
  stream.meta.phase = Phase::kTrain;
  stream.meta_record().start("r", std::nullopt, 0, true, "n", Step::kBackward).end("r", 1).complete(1);
  Texts codes;
  for (const HealthIssue& issue : stream.health.finish().issues) codes.emplace_back(issue.code);
  EXPECT_EQ(codes,
            (Texts{"operations_absent", "tensors_absent", "logical_memory_absent", "physical_memory_absent",
                   "device_timing_absent", "gradients_absent", "forward_absent", "optimizer_absent"}));
}

TEST(TraceHealth, ProvenanceIsOneIssueHoweverMuchIsWrong) {
  HealthStream stream;
  stream.meta.run_id = "\xE3\x80\x80";  // an ideographic space
  stream.meta.capture_step = 0;
  stream.meta_record().start("r", std::nullopt, 0, true).end("r", 1).complete(1);
  EXPECT_EQ(stream.issues(), (Texts{"run_provenance_invalid 1"}));
  HealthStream identity;
  identity.meta.comparison_identity.emplace();  // blank texts
  identity.meta_record().start("r", std::nullopt, 0, true).end("r", 1).complete(1);
  EXPECT_EQ(identity.issues(), (Texts{"run_provenance_invalid 1"}));
}

TEST(TraceHealth, ThereIsOneRootAndOneMeasuredSpan) {
  HealthStream two = with_root();
  two.start("q", std::nullopt, 0, true).end("q", 1).end("r", 1).complete(1);
  EXPECT_EQ(two.issues(), (Texts{"root_count", "measurement_count"}));
  HealthStream failed;
  failed.meta_record().start("r", std::nullopt, 0).end("r", 1).fail(1);
  EXPECT_EQ(failed.issues(), (Texts{"w capture_failed 4"}));
  EXPECT_EQ(failed.health.finish().issues.front().message, "killed");
}

TEST(TraceHealth, OpenSpansAreErrorsUnlessTheCaptureFailed) {
  HealthStream complete = with_root();
  complete.start("s10", "r", 1).start("s2", "r", 1).complete(5);
  EXPECT_EQ(complete.issues(), (Texts{"open_span 2", "open_span 3", "open_span 4"}));
  HealthStream failed = with_root();
  failed.start("s10", "r", 1).start("s2", "r", 1).fail(5);
  EXPECT_EQ(failed.issues(),
            (Texts{"w capture_failed 5", "w open_span 2", "w open_span 3", "w open_span 4"}));
}

TEST(TraceHealth, AChildLiesWithinItsParentTouchingEndsIncluded) {
  HealthStream stream = with_root();
  stream.start("a", "r", 0).start("b", "r", 90).start("c", "r", 99);
  stream.end("a", 100).end("b", 10).end("c", 2).end("r", 100).complete(200);
  EXPECT_EQ(stream.issues(), (Texts{"child_outside_parent 5"}));
  // The parent ended first, or begins later.
  HealthStream late;
  late.meta_record().start("r", std::nullopt, 10, true).end("r", 10);
  late.start("a", "r", 9).end("a", 5).start("b", "r", 10).end("b", 10).start("c", "r", 20).end("c", 1);
  late.complete(200);
  EXPECT_EQ(late.issues(), (Texts{"child_outside_parent 4", "child_outside_parent 8"}));
}

TEST(TraceHealth, AParentMayComeAfterItsChildOpenOrEnded) {
  HealthStream stream;
  stream.meta_record().start("a", "r", 5).end("a", 6).start("b", "r", 5).start("r", std::nullopt, 0, true);
  stream.end("r", 10).end("b", 6).complete(20);
  EXPECT_EQ(stream.issues(), (Texts{"child_outside_parent 2", "child_outside_parent 4"}));
}

TEST(TraceHealth, NothingIsOutsideASpanThatIsOpen) {
  HealthStream stream;
  stream.meta_record().start("r", std::nullopt, 50, true).start("a", "r", 1).end("a", 1);
  stream.op("r", 1, 1).memory("r", kAlloc, "m", 1, 4).fail(60);
  EXPECT_EQ(stream.issues(), (Texts{"w capture_failed 7", "w open_span 2", "w retained_allocations"}));
}

TEST(TraceHealth, UnknownParentsAreToldWithTheirSpansInTheOrderOfIds) {
  HealthStream stream = with_root();
  stream.start("z", "ghost", 1).start("b", "ghost", 1).start("a", "late", 1).start("late", "r", 1);
  stream.end("z", 1).end("b", 1).end("a", 1).end("late", 1).end("r", 9).complete(9);
  EXPECT_EQ(stream.issues(), (Texts{"unknown_parent 4", "unknown_parent 3"}));
}

TEST(TraceHealth, CyclesAreToldForEachSpanThatLeadsIntoThem) {
  HealthStream stream = with_root();
  stream.start("a", "b", 0).start("b", "c", 0).start("c", "b", 0).start("self", "self", 0);
  stream.start("tail", "a", 0).start("fine", "r", 0);
  for (const char* id : {"a", "b", "c", "self", "tail", "fine", "r"}) stream.end(id, 0);
  stream.complete(0);
  EXPECT_EQ(stream.issues(),
            (Texts{"span_cycle 3", "span_cycle 4", "span_cycle 5", "span_cycle 6", "span_cycle 7"}));
}

TEST(TraceHealth, ALongCycleTakesNoStack) {
  constexpr int kSpans = 200000;
  HealthStream stream = with_root({.most_issues_per_code = 2});
  for (int i = 0; i < kSpans; ++i) {
    const std::string id = "s" + std::to_string(i), parent = "s" + std::to_string((i + 1) % kSpans);
    stream.start(id, parent, 0).end(id, 0);
  }
  stream.end("r", 0).complete(0);
  const Health health = stream.health.finish();
  EXPECT_EQ(health.errors, static_cast<std::uint64_t>(kSpans));
  EXPECT_TRUE(health.cut());
  ASSERT_EQ(health.totals.front().code, "span_cycle");
  EXPECT_EQ(health.totals.front().errors, static_cast<std::uint64_t>(kSpans));
  EXPECT_EQ(health.totals.front().listed, 2U);
  EXPECT_EQ(health.totals.front().first->line, 3U);
}

TEST(TraceHealth, UnknownSpansAreToldByKindOfRecord) {
  HealthStream stream = with_root();
  stream.interval("g", 1).memory("g", kAlloc, "m", 0, 1).tensor("g", "t").op("g", 0, 1).op("h", 0, 1);
  stream.op("later", 0, 1).start("later", "r", 0).end("later", 1).end("r", 1).complete(9);
  EXPECT_EQ(stream.issues(), (Texts{"unknown_span 6", "unknown_span 7", "unknown_span 5", "unknown_span 4",
                                    "unknown_span 3", "w retained_allocations"}));
}

TEST(TraceHealth, AnOperationLiesWithinItsSpanWhicheverComesFirst) {
  HealthStream stream = with_root();
  stream.op("a", 9, 1).op("a", 20, 1).start("a", "r", 10).op("a", 10, 10).op("a", 19, 2).end("a", 10);
  stream.op("a", 10, 11)
      .op("a", 20, 0)
      .op("a", 30, ~std::uint64_t{0})
      .end("r", 100)
      .complete(~std::uint64_t{0});
  EXPECT_EQ(stream.issues(),
            (Texts{"operation_outside_span 3", "operation_outside_span 4", "operation_outside_span 7",
                   "operation_outside_span 9", "operation_outside_span 11"}));
}

TEST(TraceHealth, AMemoryEventLiesWithinItsSpan) {
  HealthStream stream = with_root();
  stream.start("a", "r", 10).memory("a", kAlloc, "m", 10, 1).memory("a", kFree, "m", 21, 1).end("a", 10);
  stream.memory("a", kAlloc, "n", 20, 1).memory("a", kFree, "n", 20, 1).memory("a", kAlloc, "o", 9, 1);
  stream.memory("r", kFree, "o", 30, 1).end("r", 100).complete(100);
  EXPECT_EQ(stream.issues(), (Texts{"memory_outside_span 5", "memory_outside_span 9"}));
}

TEST(TraceHealth, EmptyDeviceRecordsAreErrors) {
  HealthStream stream = with_root();
  stream.interval("r", 0).interval("r", 1);
  stream.health.on_device_memory(DeviceMemory{}, Place{4, 5, 0});
  stream.end("r", 1).complete(1);
  EXPECT_EQ(stream.issues(), (Texts{"empty_device_interval 3", "empty_device_memory_sample 5"}));
}

TEST(TraceHealth, CallEdgesAgreeWithTheSpans) {
  HealthStream stream = with_root();
  stream.call("r", "a", 5).call("r", "a", 6).call("a", "r", 9).call("r", "ghost", 1).call("ghost", "r", 1);
  stream.start("a", "r", 0).end("a", 5).call("r", "a", 5).call("a", "a", 4).start("open", "r", 0);
  stream.call("r", "open", 77).end("r", 9).fail(9);
  EXPECT_EQ(stream.issues(),
            (Texts{"w capture_failed 15", "w open_span 12", "call_edge_duration_mismatch 4",
                   "call_edge_hierarchy_mismatch 5", "unknown_call_edge_span 6", "unknown_call_edge_span 7",
                   "call_edge_hierarchy_mismatch 11", "call_edge_duration_mismatch 11"}));
}

TEST(TraceHealth, DataEdgesJoinTensorsThatARecordNamesBeforeOrAfter) {
  HealthStream stream = with_root();
  stream.data("in", "out").data("", "in").data("in", "").data(" ", "in").data("m", "in").data("out", "x");
  stream.op("r", 0, 1, {"in"}, "out").memory("r", kAlloc, "s", 0, 1, "m").tensor("r", "x").end("r", 9);
  stream.complete(9);
  EXPECT_EQ(stream.issues(),
            (Texts{"empty_data_edge_endpoint 4", "empty_data_edge_endpoint 5", "unknown_data_edge_tensor 6",
                   "unknown_data_edge_tensor 7", "w retained_allocations"}));
}

TEST(TraceHealth, EdgesAreToldInStreamOrderOfBothKinds) {
  HealthStream stream = with_root();
  stream.data("", "").call("r", "g", 0).data("q", "q").call("g", "g", 0).end("r", 9).complete(9);
  EXPECT_EQ(stream.issues(), (Texts{"empty_data_edge_endpoint 3", "unknown_call_edge_span 4",
                                    "unknown_data_edge_tensor 5", "unknown_call_edge_span 6"}));
}

TEST(TraceHealth, ALimitCutsTheListAndNotTheCount) {
  HealthStream stream = with_root({.most_issues_per_code = 3});
  for (int i = 0; i < 10; ++i) stream.op("ghost", 0, 1).interval("r", 0);
  stream.end("r", 9).complete(9);
  const Health health = stream.health.finish();
  EXPECT_EQ(health.errors, 20U);
  EXPECT_TRUE(health.cut());
  EXPECT_EQ(stream.issues().size(), 6U);
  ASSERT_EQ(health.totals.front().code, "unknown_span");
  EXPECT_EQ(health.totals.front().errors, 10U);
}

TEST(TraceHealth, ItMayBeAskedBeforeTheEndAndAgain) {
  HealthStream stream = with_root();
  stream.op("a", 5, 1);
  EXPECT_EQ(stream.issues(), (Texts{"open_span 2", "unknown_span 3"}));
  EXPECT_EQ(stream.health.stream_status().error().name, "missing_terminal");
  stream.start("a", "r", 0).end("a", 5).end("r", 9).complete(9);
  EXPECT_EQ(stream.issues(), (Texts{"operation_outside_span 3"}));
  EXPECT_EQ(stream.issues(), (Texts{"operation_outside_span 3"}));
  EXPECT_TRUE(stream.health.stream_status().ok());
}

TEST(TraceHealth, WhatTheStreamRulesRefuseDoesNotCount) {
  HealthStream stream = with_root();
  stream.start("r", std::nullopt, 5, true).end("r", 9).end("r", 99).complete(9).op("r", 50, 50);
  EXPECT_EQ(stream.issues(), Texts{});
  EXPECT_EQ(stream.health.finish().coverage.operations, 0U);
  (void)stream.health.stream_status();
  Texts names;
  for (const auto& total : stream.health.rules().totals()) names.emplace_back(total.name);
  EXPECT_EQ(names, (Texts{"duplicate_span_id", "duplicate_span_end", "record_after_terminal"}));
}

TEST(TraceHealth, MetaGivenAtTheEndCountsInstead) {
  HealthStream stream = with_root();
  stream.end("r", 9).complete(9);
  Meta meta = stream.meta;
  meta.run_id = "";
  EXPECT_EQ(stream.health.finish(&meta).issues.front().code, "run_provenance_invalid");
  EXPECT_TRUE(stream.health.finish().structurally_valid);
}

TEST(TraceHealth, ManyRecordsThatWaitForTheirSpanAreAllJudged) {
  HealthStream stream = with_root({.most_issues_per_code = 1});
  constexpr std::uint64_t kOps = 300000;  // more pages than stay in memory
  for (std::uint64_t i = 0; i < kOps; ++i) stream.op("r", i, 2);
  stream.end("r", kOps).complete(2 * kOps);
  EXPECT_EQ(stream.issues(), (Texts{"operation_outside_span " + std::to_string(kOps + 2)}));
}

}  // namespace
}  // namespace tensortap::format
