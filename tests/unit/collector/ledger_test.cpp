#include "collector/ledger.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <limits>

namespace tensortap::collector {
namespace {

ThreadAccount ring(std::uint32_t number, std::uint64_t offered, std::uint64_t published,
                   Counts dropped = {}) {
  return {number, number, 70 + number, offered, published, std::move(dropped)};
}

TEST(Ledger, WhatIsStoredIsWhatTheNumbersOnDiskSay) {
  RingTally tally;
  tally.rings = {ring(0, 5, 5), ring(1, 110, 100, {{"ring_full", 10}})};
  Losses losses;
  losses.recovered = 7;
  const Ledger ledger = settle_rings(tally, {{0, 640, 5}, {1, 9000, 100}}, losses);
  EXPECT_EQ(ledger.offered, 115u);
  EXPECT_EQ(ledger.stored, 105u);
  EXPECT_EQ(ledger.dropped, (Counts{{"ring_full", 10}}));
  EXPECT_EQ(ledger.sequence->published, 105u);
  EXPECT_EQ(ledger.sequence->on_disk, 105u);
  EXPECT_EQ(ledger.sequence->recovered, 7u);
  ASSERT_EQ(ledger.threads.size(), 2u);
  EXPECT_EQ(ledger.threads[1].offered, 110u);
}

TEST(Ledger, WhatIsMissingOnDiskHasItsCause) {
  RingTally tally;
  tally.rings = {ring(1, 100, 100), ring(2, 50, 50)};
  Losses losses;
  losses.missing_cause = "write_failed";
  Ledger ledger = settle_rings(tally, {{1, 9000, 60}}, losses);
  EXPECT_EQ(ledger.stored, 60u);
  EXPECT_EQ(ledger.dropped, (Counts{{"write_failed", 90}}));
  EXPECT_EQ(ledger.threads[1].dropped, (Counts{{"write_failed", 50}}));
  losses.missing_cause.clear();
  ledger = settle_rings(tally, {{1, 9000, 60}}, losses);
  EXPECT_EQ(ledger.dropped, (Counts{{"unaccounted", 90}})) << "never silently";
  EXPECT_TRUE(ledger.adds_up());
}

TEST(Ledger, ARecordThatWasCountedAndNotWrittenWasInFlight) {
  RingTally tally;
  tally.rings = {ring(1, 8, 6, {{"ring_full", 1}})};
  EXPECT_EQ(settle_rings(tally, {{1, 64, 6}}, {}).dropped, (Counts{{"in_flight", 1}, {"ring_full", 1}}));
}

TEST(Ledger, OfALivingProducerWhatIsOnItsWayIsNotLost) {
  RingTally tally;
  tally.rings = {ring(1, 100, 99)};
  Losses losses;
  losses.ended = false;
  const Ledger ledger = settle_rings(tally, {{1, 64, 40}}, losses);
  EXPECT_EQ(ledger.offered, 40u);
  EXPECT_EQ(ledger.stored, 40u);
  EXPECT_TRUE(ledger.dropped.empty());
  EXPECT_EQ(ledger.sequence->published, 99u);
}

TEST(Ledger, RefusedLinesAreRecordsThatCameAndWereNotStored) {
  RingTally tally;
  tally.rings = {ring(1, 10, 10)};
  Losses losses;
  losses.refused = {{"bad_line", 3}};
  const Ledger ledger = settle_rings(tally, {{1, 64, 10}}, losses);
  EXPECT_EQ(ledger.stored, 7u);
  EXPECT_EQ(ledger.dropped, (Counts{{"bad_line", 3}}));
  EXPECT_EQ(ledger.offered, 10u);
}

TEST(Ledger, WithoutNumbersTheRingsAreBelievedAndNothingIsProved) {
  RingTally tally;
  tally.rings = {ring(1, 10, 10), ring(2, 4, 4)};
  const Ledger ledger = settle_rings(tally, {{1, 640, 0}, {2, 80, 4}}, {});
  EXPECT_EQ(ledger.stored, 14u);
  EXPECT_FALSE(ledger.sequence);
}

TEST(Ledger, ALiarsCountsNeverWrapAround) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  RingTally tally;
  tally.rings = {ring(1, 3, kMost, {{"ring_full", kMost}}), ring(2, kMost, 7), ring(3, 0, 1)};
  const Ledger ledger = settle_rings(tally, {{1, 64, kMost}, {3, 64, 900}}, {});
  EXPECT_EQ(ledger.offered, kMost);
  EXPECT_EQ(ledger.stored, kMost);
}

TEST(Ledger, RowsAreBoundedAndTheGreatestLossesAreNamed) {
  RingTally tally;
  for (std::uint32_t i = 0; i < 500; ++i) tally.rings.push_back(ring(i, i, i));
  tally.rings[77] = ring(77, 77, 70, {{"ring_full", 7}});
  std::vector<format::Cursor> cursors;
  for (const ThreadAccount& account : tally.rings) cursors.push_back({account.ring, 8, account.stored});
  const auto object = ledger_json(settle_rings(tally, cursors, {}), 3);
  const auto& rows = object.at("threads").as_array();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].at("ring"), 77);
  EXPECT_EQ(rows[1].at("ring"), 499);
  EXPECT_TRUE(rows[3].at("ring").is_null());
  EXPECT_EQ(rows[3].at("rings"), 497);
  std::uint64_t offered = 0;
  for (const auto& row : rows) offered += row.at("offered").to_number<std::uint64_t>();
  EXPECT_EQ(offered, object.at("offered").to_number<std::uint64_t>());
}

TEST(Ledger, EveryCauseOfOursHasAStage) {
  for (const char* cause : {"ring_full", "no_ring", "nesting_too_deep", "in_flight"})
    EXPECT_EQ(stage_of(cause), "ring") << cause;
  EXPECT_EQ(stage_of("unfinished_line"), "socket");
  EXPECT_EQ(stage_of("quota_bytes"), "daemon");
  EXPECT_EQ(stage_of("write_failed"), "disk");
  EXPECT_EQ(stage_of("unaccounted"), "tail");
  EXPECT_EQ(stage_of("sampling"), "producer");
}

TEST(Ledger, SurvivesARoundTrip) {
  RingTally tally;
  tally.rings = {ring(0, 5, 5), ring(9, 12, 10, {{"ring_full", 2}})};
  Ledger ledger = settle_rings(tally, {{0, 64, 5}, {9, 64, 10}}, {});
  ledger.unknown_tail_bytes_max.reset();
  const auto object = ledger_json(ledger);
  EXPECT_EQ(ledger_json(parse_ledger(object)), object) << boost::json::serialize(object);
}

}  // namespace
}  // namespace tensortap::collector
