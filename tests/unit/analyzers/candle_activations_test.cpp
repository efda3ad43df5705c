// The activation profile: which op a storage is charged to, the figures, and the states.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/analyzers/candle_stream.h"

namespace tensortap::analyzers::candle {
namespace {

using format::Coverage;
using format::MemoryCategory;
using format::SpanKind;
using testing::Stream;

// Root r and the measured span w, both 0 to 100.
Stream& window(Stream& stream) {
  return stream.begin().span("r", "", 0, 100).span("w", "r", 0, 100, {.measured = true});
}

std::map<std::string, ActivationOp> operations(const Stream& stream) {
  std::map<std::string, ActivationOp> out;
  const ActivationProfile& profile = stream.evidence.activations();
  profile.for_each([&](const ActivationOp& op) { out[profile.id(op)] = op; });
  return out;
}

// The ids of ops that one storage with tensor "t", of the op name "mm", is charged to.
std::string charged(std::initializer_list<std::pair<const char*, const char*>> ops_with_outputs,
                    const char* op_name = "mm") {
  Stream stream;
  window(stream);
  for (const auto& [name, output] : ops_with_outputs) stream.op("w", name, 0, 1, {.output = output});
  stream.alloc("w", "s", 1, 8, {.op_name = op_name, .tensor = "t"});
  EXPECT_TRUE(stream.end());
  std::string out;
  for (const auto& [id, op] : operations(stream)) out += id + ' ';
  EXPECT_EQ(stream.evidence.activations().unattributed_storages(), out.empty() ? 1u : 0u);
  return out;
}

TEST(Activations, AStorageIsChargedToTheOneOpThatOutputAndNameAgreeOn) {
  EXPECT_EQ(charged({{"mm", "t"}}), "w/op/0 ");
  EXPECT_EQ(charged({{"mm", "x"}}), "w/op/0 ");   // by name alone
  EXPECT_EQ(charged({{"add", "t"}}), "w/op/0 ");  // by output alone
  EXPECT_EQ(charged({{"add", "t"}}, ""), "w/op/0 ");
  EXPECT_EQ(charged({{"add", "t"}, {"mm", "x"}}), "");         // they contradict each other
  EXPECT_EQ(charged({{"add", "t"}, {"mm", "t"}}), "w/op/1 ");  // the name decides between outputs
  EXPECT_EQ(charged({{"mm", "t"}, {"mm", "x"}}), "w/op/0 ");   // the output decides between names
  EXPECT_EQ(charged({{"mm", "t"}, {"mm", "t"}}), "");
  EXPECT_EQ(charged({{"mm", "x"}, {"mm", "y"}}), "");
  EXPECT_EQ(charged({{"add", "t"}, {"mul", "t"}, {"mm", "x"}}), "");
  EXPECT_EQ(charged({{"add", "t"}, {"mul", "t"}}), "");
  EXPECT_EQ(charged({{"add", "x"}}), "");
}

TEST(Activations, AnAliasCountsAsAnOutputOfTheStorage) {
  Stream stream;
  window(stream).op("w", "view", 5, 1, {.output = "alias"});
  stream.alloc("w", "s", 1, 8, {.tensor = "t"}).alloc("w", "s", 2, 8, {.tensor = "alias"});
  ASSERT_TRUE(stream.end());
  EXPECT_EQ(operations(stream).count("w/op/0"), 1u);
}

TEST(Activations, OnlyOpsAndStoragesOfTheMeasuredSubtreeCount) {
  Stream stream;
  window(stream).span("out", "r", 0, 100).op("out", "mm", 0, 1, {.output = "t"});
  stream.alloc("out", "s", 1, 8, {.op_name = "mm"}).tensor("out", "t", MemoryCategory::kActivation);
  ASSERT_TRUE(stream.end());
  EXPECT_EQ(stream.evidence.activations().listed(), 0u);
  EXPECT_EQ(stream.evidence.activations().unattributed_storages(), 0u);
}

TEST(Activations, TimesAreThoseInsideTheMeasuredSpan) {
  Stream stream;
  stream.begin().span("r", "", 0, 100).span("w", "r", 10, 50, {.measured = true});
  stream.op("w", "mm", 10, 5).op("w", "add", 20, 5);
  stream.alloc("w", "s1", 20, 8, {.op_name = "mm"}).free("w", "s1", 30, 8);
  stream.alloc("w", "s2", 40, 2, {.op_name = "mm"});                          // to the end, and beyond
  stream.alloc("w", "s3", 60, 5, {.op_name = "add"}).free("r", "s3", 90, 5);  // begins at the end
  ASSERT_TRUE(stream.end());
  const auto ops = operations(stream);
  const ActivationOp& mm = ops.at("w/op/0");
  EXPECT_EQ(mm.allocated_bytes, 10u);
  EXPECT_EQ(mm.storage_count, 2u);
  EXPECT_EQ(mm.live_ns, 10u + 20u);
  EXPECT_EQ(static_cast<std::uint64_t>(mm.byte_ns), 80u + 40u);
  EXPECT_EQ(mm.retained_bytes, 2u);
  EXPECT_EQ(ops.at("w/op/1").live_ns, 0u);
  EXPECT_EQ(ops.at("w/op/1").retained_bytes, 0u);
}

TEST(Activations, WithoutAClosedMeasuredSpanOnlyBytesAndCountAreKnown) {
  Stream stream;
  stream.begin().span("r", "", 0, 100).span("w", "r", 0, 0, {.measured = true, .open = true});
  stream.op("w", "mm", 0, 1).alloc("w", "s", 1, 8, {.op_name = "mm"});
  ASSERT_TRUE(stream.end(format::Outcome::kFailed));
  const ActivationOp op = operations(stream).at("w/op/0");
  EXPECT_TRUE(op.knows_storage);
  EXPECT_FALSE(op.knows_times);
  EXPECT_EQ(op.allocated_bytes, 8u);
}

TEST(Activations, AnOpWithoutStorageHasZeroOnlyUnderACompleteClaimAndInAnUnmarkedSpan) {
  Stream stream;
  stream.meta.capture_contract.logical_memory = Coverage::kComplete;
  window(stream).span("marked", "w", 0, 100);
  stream.op("w", "mm", 0, 1, {.output = "t"}).op("marked", "mm", 0, 1, {.output = "t"});
  stream.tensor("w", "t", MemoryCategory::kActivation)
      .alloc("marked", "s", 1, 8, {.op_name = "other", .tensor = "u"});
  ASSERT_TRUE(stream.end());
  const auto ops = operations(stream);
  EXPECT_TRUE(ops.at("w/op/0").knows_times);
  EXPECT_EQ(ops.at("w/op/0").storage_count, 0u);
  EXPECT_FALSE(ops.at("marked/op/0").knows_storage);
}

TEST(Activations, ByteNanosecondsSaturateAt128Bits) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  Stream stream;
  stream.begin().span("w", "", 0, kMost, {.measured = true}).op("w", "mm", 0, 1);
  stream.alloc("w", "s1", 0, kMost, {.op_name = "mm"}).alloc("w", "s2", 0, kMost, {.op_name = "mm"});
  ASSERT_TRUE(stream.end());
  const ActivationOp op = operations(stream).at("w/op/0");
  EXPECT_TRUE(op.byte_ns == ~ByteNanoseconds{0});
  EXPECT_EQ(op.allocated_bytes, kMost);
}

TEST(Activations, ASpanOfKindOpWithOneRecordStandsForIt) {
  Stream stream;
  window(stream)
      .span("one", "w", 0, 9, {.kind = SpanKind::kOp})
      .span("two", "w", 0, 9, {.kind = SpanKind::kOp});
  stream.op("one", "mm", 0, 1, {.output = "t"}).op("two", "mm", 0, 1, {.output = "t"}).op("two", "mm", 0, 1);
  stream.tensor("w", "t", MemoryCategory::kActivation);
  ASSERT_TRUE(stream.end());
  const auto ops = operations(stream);
  EXPECT_TRUE(ops.at("one").dedicated);
  EXPECT_FALSE(ops.at("two/op/0").dedicated);
}

TEST(Activations, TheLongestOfEqualOnesHasTheSmallestId) {
  Stream stream;
  window(stream);
  for (int i = 0; i < 11; ++i) stream.op("w", "mm", 0, i < 2 ? 1 : 7, {.output = "t"});
  stream.tensor("w", "t", MemoryCategory::kActivation);
  ASSERT_TRUE(stream.end());
  const ActivationProfile& profile = stream.evidence.activations();
  EXPECT_EQ(profile.id(*profile.longest()), "w/op/10");
}

CapabilityState device_time(bool first_has_interval, bool second_has_interval,
                            const char* device = "cuda:0") {
  Stream stream;
  stream.meta.capture_contract.device_timing = Coverage::kComplete;
  stream.meta.capture_contract.activations = Coverage::kComplete;
  stream.meta.capture_contract.tensors = Coverage::kComplete;
  window(stream).span("a", "w", 0, 9, {.kind = SpanKind::kOp}).span("b", "w", 0, 9, {.kind = SpanKind::kOp});
  stream.op("a", "mm", 0, 1, {.output = "t", .device = device})
      .op("b", "mm", 0, 1, {.output = "t", .device = device});
  stream.tensor("w", "t", MemoryCategory::kActivation).interval("w", 0, 5);
  if (first_has_interval) stream.interval("a", 0, 5);
  if (second_has_interval) stream.interval("b", 0, 5);
  EXPECT_TRUE(stream.end());
  return stream.evidence.activation_states().device_time;
}

TEST(Activations, DeviceTimeNeedsDeviceIntervalsOfDedicatedSpans) {
  EXPECT_EQ(device_time(true, true).level, Level::kComplete);
  EXPECT_EQ(device_time(true, true).source, "activation category links + device intervals");
  EXPECT_EQ(device_time(true, false).level, Level::kPartial);
  EXPECT_EQ(device_time(false, false).level, Level::kUnavailable);
  EXPECT_EQ(device_time(true, true, "CPU:1").level, Level::kUnavailable);
  EXPECT_EQ(device_time(true, true, "cpux").level, Level::kComplete);  // not a host device
}

TEST(Activations, OneSpanMayHoldManyOpsAndStorages) {
  constexpr int kMany = 20000;
  Stream stream;
  window(stream);
  for (int i = 0; i < kMany; ++i) {
    const std::string tensor = "t" + std::to_string(i), storage = "s" + std::to_string(i);
    stream.op("w", "mm", 0, 1, {.output = tensor})
        .alloc("w", storage, 1, 1 + i, {.op_name = "mm", .tensor = tensor});
  }
  ASSERT_TRUE(stream.end());
  EXPECT_EQ(stream.evidence.activations().unattributed_storages(), 0u);
  const auto ops = operations(stream);
  ASSERT_EQ(ops.size(), std::size_t{kMany});
  EXPECT_EQ(ops.at("w/op/19999").allocated_bytes, 20000u);
}

}  // namespace
}  // namespace tensortap::analyzers::candle
