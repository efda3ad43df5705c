#include "collector/coverage.h"

#include <gtest/gtest.h>

#include "tests/unit/collector/fixtures.h"

namespace tensortap::collector {
namespace {

using format::Coverage;

Truth whole() {
  Truth truth;
  truth.facts.operations = truth.facts.tensors = truth.facts.memory_events =
      truth.facts.device_memory_samples = 1;
  truth.complete = truth.losses_known = true;
  return truth;
}

format::CaptureContract settled(const Truth& truth) {
  format::Meta meta;
  settle_coverage(meta, truth);
  return meta.capture_contract;
}

TEST(Coverage, IsCompleteOnlyWhenNothingIsMissing) {
  const auto contract = settled(whole());
  EXPECT_EQ(contract.operations, Coverage::kComplete);
  EXPECT_EQ(contract.logical_memory, Coverage::kComplete);
  EXPECT_EQ(contract.tensors, Coverage::kPartial);
  EXPECT_EQ(contract.physical_memory, Coverage::kPartial);
  EXPECT_EQ(contract.gradients, Coverage::kNone);
}

TEST(Coverage, IsPartialAfterAnyLoss) {
  for (const auto spoil : {+[](Truth& t) { t.complete = false; }, +[](Truth& t) { t.losses_known = false; },
                           +[](Truth& t) { t.lost = true; }}) {
    Truth truth = whole();
    spoil(truth);
    EXPECT_EQ(settled(truth).operations, Coverage::kPartial);
    EXPECT_EQ(settled(truth).logical_memory, Coverage::kPartial);
  }
}

TEST(Coverage, EachCounterLowersWhatItSpeaksOf) {
  for (const char* code : {"before_window", "cut_at_stop", "compiled_region", "script_function"}) {
    Truth truth = whole();
    truth.diagnostics[code] = 1;
    EXPECT_EQ(settled(truth).operations, Coverage::kPartial) << code;
    EXPECT_EQ(settled(truth).logical_memory, Coverage::kComplete) << code;
  }
  for (const char* code : {"untracked_block", "free_of_unseen_block"}) {
    Truth truth = whole();
    truth.diagnostics[code] = 1;
    EXPECT_EQ(settled(truth).logical_memory, Coverage::kPartial) << code;
    EXPECT_EQ(settled(truth).operations, Coverage::kComplete) << code;
  }
}

TEST(Coverage, ALateStartLowersBoth) {
  Truth truth = whole();
  truth.diagnostics["late_arm"] = 1;
  EXPECT_EQ(settled(truth).operations, Coverage::kPartial);
  EXPECT_EQ(settled(truth).logical_memory, Coverage::kPartial);
}

TEST(Coverage, OfNothingIsNone) {
  Truth truth;
  truth.complete = truth.losses_known = true;
  EXPECT_EQ(settled(truth).operations, Coverage::kNone);
  EXPECT_EQ(settled(truth).logical_memory, Coverage::kNone);
}

TEST(Coverage, GoesIntoTheMetaLineWithPhaseAndDiagnostics) {
  Truth truth = whole();
  truth.facts.train = true;
  truth.diagnostics = {{"cut_at_stop", 2}};
  const auto line = final_meta_line(test::meta_line("r-1") + "\n", truth);
  ASSERT_TRUE(line.ok()) << line.error().to_string();
  const auto meta = boost::json::parse(*line).as_object();
  EXPECT_EQ(meta.at("phase"), "train");
  EXPECT_EQ(meta.at("capture_contract").at("operations"), "partial");
  EXPECT_EQ(meta.at("ext").at("diagnostics").at("cut_at_stop"), 2);
  EXPECT_EQ(meta.at("ext").at("producer"), "test") << "what the producer said stays";
  EXPECT_EQ(line->back(), '\n');
}

TEST(Coverage, ALineThatIsNoMetaIsAnError) { EXPECT_FALSE(final_meta_line("{}\n", whole()).ok()); }

}  // namespace
}  // namespace tensortap::collector
