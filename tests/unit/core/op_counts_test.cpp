#include "probe/core/op_counts.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace tensortap::probe {
namespace {

TEST(DurationBuckets, EachDurationLiesInItsBucketAndTheyRiseWithoutAGap) {
  for (std::uint32_t bucket = 0; bucket + 1 < kDurationBuckets; ++bucket) {
    const std::uint64_t begin = bucket_begin_ns(bucket), next = bucket_begin_ns(bucket + 1);
    ASSERT_LT(begin, next) << bucket;
    EXPECT_EQ(duration_bucket(begin), bucket);
    EXPECT_EQ(duration_bucket(next - 1), bucket);
    if (begin >= 4) {
      EXPECT_LE(static_cast<double>(next) / static_cast<double>(begin), 1.25);
    }
  }
  EXPECT_EQ(duration_bucket(~0ull), kDurationBuckets - 1);
}

class OpCounts : public ::testing::Test {
 protected:
  void SetUp() override {
    counts_leave_parent();  // nothing counted yet
    g_counting = true;
  }
  void TearDown() override { g_counting = false; }
  static std::string line() {
    std::string text;
    append_counts_line(text, 0.5, 7);
    return text;
  }
};

TEST_F(OpCounts, CallsOfAllThreadsAreAddedUpByName) {
  const std::string add = "aten::add", same_text = "aten::add";
  const auto count = [&](const std::string& name) {
    counts_begin(&name, name.c_str());
    counts_end(&name);
  };
  count(add);
  count(same_text);
  std::thread(count, std::cref(add)).join();
  std::thread(count, std::cref(add)).join();  // uses the first thread's cells again
  EXPECT_NE(line().find(R"({"name":"aten::add","calls":4,)"), std::string::npos) << line();
  EXPECT_EQ(line().rfind(R"({"kind":"counts","share":0.5,"counted_ns":7,"uncounted":0,"operators":[)", 0),
            0u);
}

TEST_F(OpCounts, ANameWhoseMemoryBecameAnotherIsAnotherOperator) {
  char name[16] = "first";
  counts_begin(name, name);
  counts_end(name);
  std::snprintf(name, sizeof name, "second");
  counts_begin(name, name);
  counts_end(name);
  EXPECT_NE(line().find(R"("name":"first","calls":1)"), std::string::npos) << line();
  EXPECT_NE(line().find(R"("name":"second","calls":1)"), std::string::npos) << line();
}

TEST_F(OpCounts, AnEndWithoutItsStartIsNothingAndOneThatWasMissedEndsWithItsCaller) {
  int outer = 0, inner = 0, unknown = 0;
  counts_end(&unknown);
  counts_begin(&outer, "outer");
  counts_begin(&inner, "inner");  // its end never comes
  counts_end(&outer);
  counts_end(&inner);
  EXPECT_NE(line().find(R"("name":"outer","calls":1)"), std::string::npos) << line();
  EXPECT_EQ(line().find("inner"), std::string::npos) << line();
}

TEST_F(OpCounts, WhatHasNoRoomIsSaid) {
  int keys[200];
  for (int& key : keys) counts_begin(&key, "deep");
  for (int i = 199; i >= 0; --i) counts_end(&keys[i]);
  EXPECT_NE(line().find(R"("uncounted":72)"), std::string::npos) << line();
  EXPECT_NE(line().find(R"("name":"deep","calls":128)"), std::string::npos) << line();
}

}  // namespace
}  // namespace tensortap::probe
