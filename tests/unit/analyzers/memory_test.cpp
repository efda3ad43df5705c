#include "analyzers/memory/live_set.h"
#include "tests/unit/analyzers/support.h"

namespace tensortap::analyzers::testing {
namespace {

TEST(Memory, OneTimestampIsOnePoint) {
  const auto report = Trace()
                          .memory("alloc", "a", 10, 100)
                          .memory("alloc", "b", 20, 50)
                          .memory("free", "a", 20, 100)
                          .finish(99)
                          .report();
  EXPECT_EQ(number_at(report, "/memory/peak/live/value"), 100U);
  EXPECT_EQ(number_at(report, "/memory/peak/time/value"), 10U);
}

TEST(Memory, TheEarliestOfEqualPeaksCounts) {
  const auto report = Trace()
                          .memory("alloc", "a", 10, 100)
                          .memory("free", "a", 20, 100)
                          .memory("alloc", "b", 30, 100)
                          .finish(99)
                          .report();
  EXPECT_EQ(number_at(report, "/memory/peak/time/value"), 10U);
  EXPECT_EQ(number_at(report, "/memory/retained/value"), 1U);
  EXPECT_EQ(number_at(report, "/memory/retained_bytes/value"), 100U);
}

TEST(Memory, AliasesAndReuseOfIdsAreOneStoragePerLifetime) {
  const auto report = Trace()
                          .memory("alloc", "a", 10, 100)
                          .memory("alloc", "a", 11, 100)  // alias
                          .memory("free", "a", 12, 100)
                          .memory("alloc", "a", 13, 60)                // a new lifetime
                          .memory("alloc", "a", 14, 7, "w", "cuda:0")  // another device: another storage
                          .finish(99)
                          .report();
  EXPECT_EQ(number_at(report, "/memory/allocations/value"), 3U);
  EXPECT_EQ(number_at(report, "/memory/allocated/value"), 167U);
  EXPECT_EQ(number_at(report, "/memory/frees/value"), 1U);
  EXPECT_EQ(number(row(report, "/memory/by_device", "cuda:0", "device"), "peak"), 7U);
}

TEST(Memory, WhatWasLiveAtThePeakIsNamedThoughFreedSince) {
  Trace trace;
  trace.span("s1.1", "w", "step-000000000004", 5, "function", R"(,"ext":{"step_number":4})");
  trace.span("s1.2", "s1.1", "net.fc", 6, "module", R"(,"ext":{"type":"Linear"})");
  trace.memory("alloc", "weights", 7, 1000, "s1.1");
  trace.memory("alloc", "out", 8, 300, "s1.2", "cpu", R"(,"op_name":"aten::addmm")");
  trace.memory("alloc", "scratch", 9, 10, "s1.2", "cpu", R"(,"op_name":"aten::addmm")");
  trace.memory("free", "scratch", 10, 10, "s1.2")
      .memory("free", "out", 11, 300, "s1.2")
      .memory("alloc", "later", 12, 5, "s1.2");
  const auto report = trace.end("s1.2", 20).end("s1.1", 30).finish(99).report();
  EXPECT_EQ(number_at(report, "/memory/peak/live/value"), 1310U);
  EXPECT_EQ(number_at(report, "/memory/peak/time/value"), 9U);
  const auto largest = items(report, "/memory/peak/largest");
  ASSERT_EQ(largest.size(), 3U);
  EXPECT_EQ(number(largest[0].as_object(), "bytes"), 1000U);
  EXPECT_EQ(largest[1].at("operator").as_string(), "aten::addmm");
  EXPECT_EQ(largest[1].at("module").as_string(), "net.fc");
  EXPECT_EQ(number(largest[1].as_object(), "step"), 4U);
  EXPECT_EQ(text(report, "/memory/peak/by_module/1/name"), "net.fc");
  EXPECT_EQ(number_at(report, "/memory/peak/by_module/1/bytes"), 310U);
}

TEST(Memory, RecordsOutOfTimeOrderWithinTheStatedDisorderAreSorted) {
  const auto report = Trace(R"({"producer":"tensortap 0","disorder_ns":50})")
                          .memory("free", "a", 40, 100)  // stands before its allocation
                          .memory("alloc", "a", 20, 100)
                          .memory("alloc", "b", 60, 10)
                          .memory("alloc", "c", 500, 1)
                          .finish(999)
                          .report();
  EXPECT_EQ(number_at(report, "/memory/peak/live/value"), 100U);
  EXPECT_EQ(number_at(report, "/memory/problems/unpaired_free"), 0U);
  EXPECT_EQ(number_at(report, "/memory/problems/late_record"), 0U);
  EXPECT_EQ(text(report, "/memory/peak/live/status"), "complete");
}

TEST(Memory, ARecordBeyondTheStatedDisorderMakesFiguresPartial) {
  const auto report = Trace(R"({"producer":"tensortap 0","disorder_ns":50})")
                          .memory("alloc", "a", 100, 1)
                          .memory("alloc", "b", 900, 1)
                          .memory("alloc", "c", 20, 1)
                          .finish(999)
                          .report();
  EXPECT_EQ(number_at(report, "/memory/problems/late_record"), 1U);
  EXPECT_EQ(text(report, "/memory/peak/live/status"), "partial");
}

TEST(Memory, AFreeOfAnUnknownStorageChangesNothing) {
  const auto report = Trace().memory("free", "x", 10, 100).memory("alloc", "a", 20, 5).finish(99).report();
  EXPECT_EQ(number_at(report, "/memory/problems/unpaired_free"), 1U);
  EXPECT_EQ(number_at(report, "/memory/peak/live/value"), 5U);
}

// A sum that does not fit is told as 2^64-1; what is freed then leaves the rest, not nothing.
TEST(Memory, BytesBeyond64BitsAreSubtractedFromTheTrueSum) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const auto report = Trace()
                          .memory("alloc", "a", 10, kMost)
                          .memory("alloc", "b", 20, 100)
                          .memory("free", "a", 30, kMost)
                          .memory("alloc", "c", 40, kMost - 100)
                          .finish(99)
                          .report();
  EXPECT_EQ(number_at(report, "/memory/retained/value"), 2U);
  EXPECT_EQ(number_at(report, "/memory/retained_bytes/value"), kMost);
  EXPECT_EQ(number_at(report, "/memory/peak/live/value"), kMost);
  EXPECT_EQ(number_at(report, "/memory/peak/time/value"), 10U) << "a greater sum is told as the same";
  const auto freed = Trace()
                         .memory("alloc", "a", 10, kMost)
                         .memory("alloc", "b", 20, 100)
                         .memory("free", "a", 30, kMost)
                         .memory("alloc", "c", 40, 7, "w", "cuda:0")
                         .finish(99)
                         .report();
  EXPECT_EQ(number_at(freed, "/memory/retained_bytes/value"), 107U);
}

// Looking at all devices at every timestamp takes longer here than the limit that ctest has for a test.
TEST(Memory, ManyDevicesCostAsMuchAsTheirRecords) {
  constexpr NameId kDevices = 400000;
  LiveSet live;
  MemoryEvent event;
  event.storage_id = "s";
  for (NameId device = 0; device < kDevices; ++device) {
    event.timestamp_ns = device + std::uint64_t{1};
    event.allocation.device = device;
    event.allocation.bytes = device % 7;
    live.apply(event);
  }
  event.timestamp_ns = kDevices + std::uint64_t{1};
  event.storage_id = "t";
  event.allocation.device = 3;
  event.allocation.bytes = 50;
  live.apply(event);
  live.finish();
  ASSERT_EQ(live.devices().size(), kDevices);
  EXPECT_EQ(live.devices().at(0).peak->live_bytes, 0U);
  EXPECT_EQ(live.devices().at(0).peak->timestamp_ns, 1U);
  EXPECT_EQ(live.devices().at(3).peak->live_bytes, 53U);
  EXPECT_EQ(live.devices().at(3).peak->timestamp_ns, event.timestamp_ns);
  EXPECT_EQ(live.devices().at(kDevices - 1).peak->timestamp_ns, std::uint64_t{kDevices});
}

TEST(Memory, OwnersAreFoundHoweverDeepTheSpansAre) {
  Trace trace;
  trace.span("m", "w", "net", 5, "module").span("s0", "m", "aten::outer", 5, "op");
  constexpr int kDeep = 20000;
  for (int i = 1; i <= kDeep; ++i) trace.span("s" + std::to_string(i), "s" + std::to_string(i - 1), "f", 5);
  const auto report =
      trace.memory("alloc", "a", 10, 100, "s" + std::to_string(kDeep)).fail(99, "stopped").report();
  EXPECT_EQ(text(report, "/memory/peak/largest/0/module"), "net");
  EXPECT_EQ(text(report, "/memory/peak/largest/0/operator"), "aten::outer");
}

}  // namespace
}  // namespace tensortap::analyzers::testing
