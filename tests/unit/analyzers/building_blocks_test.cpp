#include <gtest/gtest.h>

#include <random>
#include <set>

#include "analyzers/calls/ancestors.h"
#include "analyzers/calls/ext_fields.h"
#include "analyzers/calls/id_set.h"
#include "analyzers/calls/interval_union.h"
#include "analyzers/calls/name_table.h"
#include "analyzers/calls/time_axis.h"

namespace tensortap::analyzers {
namespace {

TEST(ExtFields, FindsTopLevelMembersOnly) {
  const ExtFields ext(
      R"({ "args":[{"thread":9},"}"], "x":"a\"b,", "thread" : 3 ,"cut":"stop","flag":true,"n":-1})");
  EXPECT_EQ(ext.integer("thread"), 3U);
  EXPECT_EQ(ext.text("x"), "a\"b,");
  EXPECT_EQ(ext.raw("args"), R"([{"thread":9},"}"])");
  EXPECT_TRUE(ext.is_true("flag"));
  EXPECT_EQ(ext.integer("n"), std::nullopt);
  EXPECT_EQ(ext.integer("cut"), std::nullopt);
  EXPECT_EQ(ext.raw("missing"), "");
}

TEST(ExtFields, BrokenTextHasNoMembersBehindTheBreak) {
  for (const char* text :
       {"", "{", "[1]", "null", R"({"a)", R"({"a")", R"({"a":)", R"({"a":1)", R"({"a":"\)", "{]}"}) {
    EXPECT_EQ(ExtFields(text).raw("thread"), "") << text;
  }
}

TEST(IntervalUnion, OverlapsCountOnceInAnyOrder) {
  IntervalUnion covered;
  EXPECT_EQ(covered.add(10, 20), 10U);
  EXPECT_EQ(covered.add(30, 40), 10U);
  EXPECT_EQ(covered.add(15, 35), 10U);
  EXPECT_EQ(covered.add(0, 50), 20U);
  EXPECT_EQ(covered.add(5, 45), 0U);
  EXPECT_EQ(covered.add(7, 7), 0U);
  EXPECT_EQ(covered.length_within(20, 60), 30U);
}

TEST(IntervalUnion, AgreesWithASetOfPoints) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    IntervalUnion covered;
    std::set<int> points;
    for (int i = 0; i < 30; ++i) {
      const int begin = static_cast<int>(random() % 200);
      const int end = begin + static_cast<int>(random() % 20);
      const std::size_t before = points.size();
      for (int point = begin; point < end; ++point) points.insert(point);
      ASSERT_EQ(covered.add(static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)),
                points.size() - before);
    }
    ASSERT_EQ(covered.length_within(0, 1000), points.size());
  }
}

TEST(IntervalUnion, KeepsItsLengthWhenOldIntervalsAreFolded) {
  IntervalUnion covered;
  const std::uint64_t many = 3 * IntervalUnion::kMostIntervals;
  for (std::uint64_t i = 0; i < many; ++i) covered.add(10 * i, 10 * i + 4);
  EXPECT_EQ(covered.length_within(0, ~std::uint64_t{0}), 4 * many);
  EXPECT_EQ(covered.late(), 0U);
  EXPECT_EQ(covered.add(5, 9), 0U);
  EXPECT_EQ(covered.late(), 1U);
}

TEST(IdSet, NumberedAndOtherIdsAreToldApart) {
  IdSet ids;
  for (const char* id : {"s1.2", "s1.1", "s1.3", "s1.03", "s1.", "s11", "", "0", "00", "18446744073709551616",
                         "x/op/1", "s1.0"}) {
    EXPECT_FALSE(ids.contains(id)) << id;
    EXPECT_TRUE(ids.insert(id)) << id;
    EXPECT_TRUE(ids.contains(id)) << id;
    EXPECT_FALSE(ids.insert(id)) << id;
  }
  EXPECT_FALSE(ids.contains("s1.4"));
  EXPECT_FALSE(ids.contains("s2.1"));
}

TEST(IdSet, AgreesWithASetInAnyOrder) {
  std::mt19937 random(3);
  IdSet ids;
  std::set<std::string> truth;
  for (int i = 0; i < 5000; ++i) {
    const std::string id = "s" + std::to_string(random() % 4) + "." + std::to_string(random() % 1000);
    ASSERT_EQ(ids.insert(id), truth.insert(id).second) << id;
  }
  EXPECT_EQ(ids.size(), truth.size());
}

TEST(NameTable, FoldsNamesBeyondItsBound) {
  NameTable names;
  for (std::size_t i = 0; i < NameTable::kMostNames + 10; ++i) names.intern("n" + std::to_string(i));
  EXPECT_EQ(names.text(names.intern("one more")), NameTable::kOtherNames);
  EXPECT_EQ(names.text(names.intern("n5")), "n5");
  EXPECT_EQ(names.folded(), 11U);
}

constexpr std::uint64_t kHour = 3600ULL * 1000000000ULL;

TEST(TimeAxis, AnOperatorFarAheadDoesNotStretchIt) {
  TimeAxis axis;
  axis.span_time(1000);
  axis.operator_time(5 * kHour, 5 * kHour + 10, 1000, 0);
  axis.operator_time(std::uint64_t{1} << 62, std::uint64_t{1} << 62, 1000, 0);
  axis.operator_time(2000, 2010, 1000, 0);
  EXPECT_EQ(axis.latest_ns(), 2010U);
  EXPECT_EQ(axis.far_future(), 2U);
}

TEST(TimeAxis, AJobThatPausedForHoursIsBorneOutByItsSpans) {
  TimeAxis axis;
  axis.span_time(1000);
  axis.operator_time(5 * kHour, 5 * kHour + 10, 1000, 0);
  axis.span_time(5 * kHour + 20);
  EXPECT_EQ(axis.far_future(), 0U);
  EXPECT_EQ(axis.latest_ns(), 5 * kHour + 20);
}

TEST(TimeAxis, TimeZeroIsWrongOnlyInASpanThatBeganLater) {
  TimeAxis axis;
  axis.operator_time(0, 10, 0, 0);
  EXPECT_EQ(axis.zero(), 0U);
  axis.operator_time(0, 10, 500, 0);
  EXPECT_EQ(axis.zero(), 1U);
}

TEST(Ancestors, TheNearestWithATraitIsFoundAlsoUnderParentsThatComeLate) {
  // A chain 0 ← 1 ← … whose parents are set in an odd order, asked between.
  constexpr Slot kSpans = 1000;
  const auto traits = [](Slot slot) {
    return static_cast<std::uint8_t>((slot % 7 == 0 ? Ancestors::bit(Ancestors::kOp) : 0) |
                                     (slot == 5 ? Ancestors::bit(Ancestors::kStep) : 0));
  };
  Ancestors ancestors;
  for (Slot slot = 0; slot < kSpans; ++slot) ancestors.add(slot, traits(slot));
  std::vector<bool> linked(kSpans);
  const auto expected = [&](Slot at, Ancestors::Trait trait) {
    while ((traits(at) & Ancestors::bit(trait)) == 0) {
      if (!linked[at]) return kNoSlot;
      --at;
    }
    return at;
  };
  for (Slot i = 1; i < kSpans; ++i) {
    const Slot child = i * 387 % kSpans;  // 387 and 1000 have no common factor: each once
    ASSERT_TRUE(ancestors.set_parent(child, child - 1));
    linked[child] = true;
    for (const Slot at : {child, (child + 13) % kSpans, kSpans - 1}) {
      for (const auto trait : {Ancestors::kOp, Ancestors::kStep, Ancestors::kModule})
        ASSERT_EQ(ancestors.nearest(at, trait), expected(at, trait)) << i << ' ' << at;
    }
  }
  EXPECT_FALSE(ancestors.set_parent(0, kSpans - 1)) << "a ring";
  EXPECT_FALSE(ancestors.set_parent(0, 0));
  EXPECT_EQ(ancestors.nearest(kSpans - 1, Ancestors::kModule), kNoSlot);
}

}  // namespace
}  // namespace tensortap::analyzers
