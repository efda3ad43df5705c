// Capability levels, gaps and findings.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/analyzers/candle_stream.h"

namespace tensortap::analyzers::candle {
namespace {

using format::Coverage;
using testing::Stream;

CapabilityState operations(Coverage declared, int ops, format::Outcome outcome = format::Outcome::kComplete) {
  Stream stream;
  stream.meta.capture_contract.operations = declared;
  stream.begin().span("w", "", 0, 9, {.measured = true});
  for (int i = 0; i < ops; ++i) stream.op("w", "mm", 0, 1);
  EXPECT_TRUE(stream.end(outcome));
  return stream.evidence.capabilities()[Capability::kOperations];
}

TEST(Capabilities, AClaimIsWeighedAgainstWhatWasSeen) {
  EXPECT_EQ(operations(Coverage::kComplete, 1).level, Level::kComplete);
  EXPECT_EQ(operations(Coverage::kComplete, 0).level, Level::kInvalid);
  EXPECT_EQ(operations(Coverage::kPartial, 1).level, Level::kPartial);
  EXPECT_EQ(operations(Coverage::kPartial, 0).level, Level::kUnavailable);
  EXPECT_EQ(operations(Coverage::kNone, 1).level, Level::kPartial);
  EXPECT_EQ(operations(Coverage::kNone, 0).level, Level::kUnavailable);
  EXPECT_EQ(operations(Coverage::kNone, 0).source, "none");
  EXPECT_EQ(operations(Coverage::kComplete, 0).source, "trace op events");
}

TEST(Capabilities, AFailedCaptureIsNowhereComplete) {
  const CapabilityState state = operations(Coverage::kComplete, 1, format::Outcome::kFailed);
  EXPECT_EQ(state.level, Level::kPartial);
  EXPECT_EQ(state.source, "trace op events");
}

// An op outside its span makes a trace structurally invalid.
TEST(Capabilities, AnInvalidTraceLowersAllButPhysicalMemoryForOneReason) {
  Stream stream;
  stream.meta.schema = "candle-graph/trace/9";
  stream.meta.capture_contract.tensors = Coverage::kPartial;
  stream.begin().span("w", "", 0, 9, {.measured = true}).op("w", "mm", 8, 5);
  stream.tensor("w", "t", format::MemoryCategory::kOther).interval("w", 0, 5);
  stream.evidence.on_device_memory({1, "cpu", 5, {}, {}, {}, {}}, {9, 10, 0});
  stream.span("late", "w", 9, 5);  // so that the terminal is late enough; outside its parent
  ASSERT_TRUE(stream.end());
  const Capabilities& all = stream.evidence.capabilities();
  const std::string shared = all[Capability::kOperations].reason;
  for (const Capability c : {Capability::kOperations, Capability::kTensors, Capability::kNestedDeviceTime}) {
    EXPECT_EQ(all[c].level, Level::kInvalid);
    EXPECT_EQ(all[c].source, "candle-graph/trace/10 validation");
    EXPECT_EQ(all[c].reason, shared);
  }
  EXPECT_EQ(all[Capability::kPhysicalMemory].level, Level::kPartial);
  EXPECT_EQ(all[Capability::kLogicalMemory].level, Level::kUnavailable);
  const auto& gaps = stream.evidence.gaps();
  EXPECT_EQ(std::count(gaps.begin(), gaps.end(), shared), 1);
  EXPECT_TRUE(std::is_sorted(gaps.begin(), gaps.end()));
}

Level activations(Coverage operations, Coverage tensors, Coverage logical_memory) {
  Stream stream;
  auto& contract = stream.meta.capture_contract;
  contract.activations = Coverage::kComplete;
  contract.operations = operations;
  contract.tensors = tensors;
  contract.logical_memory = logical_memory;
  stream.begin().span("w", "", 0, 9, {.measured = true}).op("w", "mm", 0, 1, {.output = "t"});
  stream.tensor("w", "t", format::MemoryCategory::kActivation);
  EXPECT_TRUE(stream.end());
  EXPECT_TRUE(stream.evidence.health().structurally_valid);
  return stream.evidence.capabilities()[Capability::kActivations].level;
}

TEST(Capabilities, ACompleteActivationClaimNeedsOperationsAndAWayToRecogniseThem) {
  EXPECT_EQ(activations(Coverage::kComplete, Coverage::kPartial, Coverage::kNone), Level::kComplete);
  EXPECT_EQ(activations(Coverage::kComplete, Coverage::kNone, Coverage::kPartial), Level::kComplete);
  EXPECT_EQ(activations(Coverage::kPartial, Coverage::kComplete, Coverage::kComplete), Level::kInvalid);
  EXPECT_EQ(activations(Coverage::kComplete, Coverage::kNone, Coverage::kNone), Level::kInvalid);
}

Level gpu_correlation(std::vector<std::string> labels) {
  Stream stream;
  stream.meta.capture_contract.required_semantic_labels = std::move(labels);
  stream.begin().span("w", "", 0, 9, {.measured = true}).span("a", "w", 0, 1);
  EXPECT_TRUE(stream.end(format::Outcome::kFailed));
  return stream.evidence.capabilities()[Capability::kGpuCorrelation].level;
}

TEST(Capabilities, GpuCorrelationIsInvalidWhenLabelsDoNotNameOneSpanEach) {
  EXPECT_EQ(gpu_correlation({}), Level::kUnavailable);
  EXPECT_EQ(gpu_correlation({"a"}), Level::kUnavailable);
  EXPECT_EQ(gpu_correlation({"a", "a"}), Level::kInvalid);
  EXPECT_EQ(gpu_correlation({"none"}), Level::kInvalid);
}

TEST(Combine, AnInvalidStateWinsThenAnUnavailableOne) {
  const CapabilityState complete{Level::kComplete, "a", "x"}, partial{Level::kPartial, "b", "y"};
  const CapabilityState invalid{Level::kInvalid, "c", "z"}, none{Level::kUnavailable, "none", "n"};
  EXPECT_EQ(combine(complete, complete).level, Level::kComplete);
  EXPECT_EQ(combine(complete, partial).level, Level::kPartial);
  EXPECT_EQ(combine(complete, partial).source, "a + b");
  EXPECT_EQ(combine(none, invalid).source, "c");
  EXPECT_EQ(combine(partial, none).level, Level::kUnavailable);
  EXPECT_EQ(combine(partial, none).source, "none");
}

TEST(Findings, TellTheFirstOfEachRanking) {
  Stream stream;
  stream.begin().span("w", "", 0, 3000000, {.measured = true}).span("a", "w", 0, 1255000).interval("a", 0, 5);
  ASSERT_TRUE(stream.end());
  ASSERT_EQ(stream.evidence.findings().size(), 2u);
  EXPECT_EQ(stream.evidence.findings()[0].source, "w");
  EXPECT_NE(stream.evidence.findings()[0].summary.find("1.75 ms"), std::string::npos);
  EXPECT_EQ(stream.evidence.findings()[1].source, "a");
  EXPECT_EQ(stream.evidence.findings()[1].qualification, Level::kPartial);
}

}  // namespace
}  // namespace tensortap::analyzers::candle
