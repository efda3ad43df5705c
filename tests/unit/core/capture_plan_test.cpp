#include "probe/core/capture_plan.h"

#include <gtest/gtest.h>

namespace tensortap::probe {
namespace {

using Begin = CapturePlan::Begin;
using Mode = CaptureOrder::Mode;

CaptureOrder parsed(std::string_view text) {
  CaptureOrder order;
  EXPECT_TRUE(parse_capture_order(text, order)) << text;
  return order;
}

TEST(CapturePlan, SaysWhatToCaptureInAWord) {
  EXPECT_EQ(parsed("now").mode, Mode::kCapture);
  EXPECT_EQ(parsed("now").plan.begin, Begin::kNow);
  EXPECT_EQ(parsed("idle").mode, Mode::kIdle);
  EXPECT_EQ(parsed("always-on").mode, Mode::kAlwaysOn);
  EXPECT_EQ(parsed("always-on").sampled_share, 0);
  EXPECT_EQ(parsed("always-on=0.25").sampled_share, 0.25);
}

TEST(CapturePlan, StepsAreCountedWithBothEnds) {
  const CapturePlan range = parsed("steps=10:15").plan;
  EXPECT_EQ(range.begin, Begin::kStep);
  EXPECT_EQ(range.first_step, 10u);
  EXPECT_EQ(range.steps, 6u);
  EXPECT_EQ(parsed("steps=7").plan.steps, 1u);
  EXPECT_EQ(parsed("steps=7:7").plan.steps, 1u);
  EXPECT_EQ(parsed("steps=0:").plan.steps, 0u) << "no limit";
  EXPECT_EQ(parsed("next=3").plan.begin, Begin::kBorder);
  EXPECT_EQ(parsed("next=3").plan.steps, 3u);
}

TEST(CapturePlan, DurationsHaveAUnit) {
  EXPECT_EQ(parsed("duration=5s").plan.duration_ns, 5'000'000'000u);
  EXPECT_EQ(parsed("duration=250us").plan.duration_ns, 250'000u);
  EXPECT_EQ(parsed("duration=2h").plan.duration_ns, 7'200'000'000'000u);
}

TEST(CapturePlan, AnythingElseIsRefused) {
  for (const char* text : {"",
                           "later",
                           "steps=",
                           "steps=a",
                           "steps=5:3",
                           "steps=1:2:3",
                           "steps=1:18446744073709551615",
                           "steps=99999999999999999999",
                           "next=0",
                           "next=",
                           "next=-1",
                           "next=3x",
                           "duration=5",
                           "duration=0s",
                           "duration=1.5s",
                           "duration=s",
                           "duration=9999999999999h",
                           "always-on=0",
                           "always-on=2",
                           "always-on=",
                           "always-on-",
                           "now ",
                           "idle=1"}) {
    CaptureOrder order;
    EXPECT_FALSE(parse_capture_order(text, order)) << text;
  }
}

}  // namespace
}  // namespace tensortap::probe
