#include <gtest/gtest.h>
#include <time.h>

#include "probe/core/clock.h"
#include "probe/core/name_cache.h"

namespace tensortap::probe {
namespace {

void sleep_ms(long ms) {
  const timespec pause{0, ms * 1000000};
  nanosleep(&pause, nullptr);
}

// CLOCK_MONOTONIC read before and after lies around the clock's reading, give or take its error.
void expect_close(ThreadClock& clock, std::uint64_t zero, std::uint64_t error_ns) {
  const std::uint64_t before = monotonic_ns() - zero;
  const std::uint64_t now = clock.now();
  const std::uint64_t after = monotonic_ns() - zero;
  EXPECT_GE(now + error_ns, before);
  EXPECT_LE(now, after + error_ns);
}

class ClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base_.begin(zero_);
    clock_.reset(base_);
  }
  const std::uint64_t zero_ = monotonic_ns();
  ClockBase base_;
  ThreadClock clock_;
};

TEST_F(ClockTest, IsMonotonicTimeBeforeAndAfterItsRateIsKnown) {
  for (int i = 0; i < 1000; ++i) expect_close(clock_, zero_, 0);
  sleep_ms(25);
  for (int i = 0; i < 200000; ++i) expect_close(clock_, zero_, 5000);
}

TEST_F(ClockTest, NeverFalls) {
  std::uint64_t last = 0;
  sleep_ms(25);
  for (int i = 0; i < 1000000; ++i) {
    const std::uint64_t now = clock_.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST_F(ClockTest, TimeOfAnotherClockHoldsItBackFromFalling) {
  const std::uint64_t later = clock_.now() + 1000000000;
  EXPECT_EQ(clock_.not_before(later), later);
  EXPECT_EQ(clock_.now(), later);
  EXPECT_EQ(clock_.not_before(5), later);
}

TEST_F(ClockTest, CounterThatJumpsIsNotBelievedAgain) {
  if (!base_.counter_usable.load())
    GTEST_SKIP() << "this processor's counter is not invariant: it is never used";
  sleep_ms(25);
  clock_.now();  // makes an anchor
  // As if the machine had been moved to one whose counter runs at another pace.
  base_.first_ticks -= (counter_ticks() - base_.first_ticks) * 3;
  for (int i = 0; i < 20 && base_.counter_usable.load(); ++i) {
    sleep_ms(2);
    clock_.now();
  }
  EXPECT_FALSE(base_.counter_usable.load());
  expect_close(clock_, zero_, 5000000000);  // what it had foretold meanwhile is not taken back
}

TEST(NameCacheTest, PointerThatComesAgainWithAnotherTextIsNotTheSame) {
  alignas(8) char text[64] = "aten::add";
  NameCacheEntry entry;
  entry.remember(text);
  ASSERT_NE(entry.words, 0);
  EXPECT_TRUE(entry.is_same());
  text[12] = 'x';  // behind the text
  EXPECT_TRUE(entry.is_same());
  for (const char* other : {"aten::ad", "aten::addmm", "aten::sub", "", "bten::add"}) {
    std::strcpy(text, other);
    EXPECT_FALSE(entry.is_same()) << other;
  }
}

TEST(NameCacheTest, TextThatFillsItsWordsIsComparedToItsEnd) {
  alignas(8) char text[64] = "autograd";  // eight letters: the zero is alone in the second word
  NameCacheEntry entry;
  entry.remember(text);
  EXPECT_EQ(entry.words, 2);
  EXPECT_TRUE(entry.is_same());
  std::strcpy(text, "autograds");
  EXPECT_FALSE(entry.is_same());
}

TEST(NameCacheTest, LongOrUnalignedTextIsLeftToTheStringTable) {
  alignas(8) char text[128];
  std::memset(text, 'a', sizeof text - 1);
  text[127] = 0;
  NameCacheEntry entry;
  entry.remember(text);
  EXPECT_EQ(entry.words, 0);
  std::strcpy(text + 1, "aten::add");
  entry.remember(text + 1);
  EXPECT_EQ(entry.words, 0);
}

}  // namespace
}  // namespace tensortap::probe
