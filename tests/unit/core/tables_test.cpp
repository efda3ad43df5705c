#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "probe/core/identity_tables.h"
#include "probe/core/string_interner.h"
#include "probe/core/values.h"

namespace tensortap::probe {
namespace {

const void* address(std::uint64_t value) { return reinterpret_cast<const void*>(value); }

TEST(BlockTableTest, EachLifetimeHasItsOwnSerial) {
  BlockTable table;
  NumberRange numbers;
  ASSERT_TRUE(table.create());
  const std::uint64_t first = table.add(address(64), 100, numbers);
  EXPECT_EQ(table.find_or_add_unseen(address(64), 100, numbers), first);
  EXPECT_EQ(table.remove(address(64)).serial, first);
  EXPECT_EQ(table.remove(address(64)).serial, 0u);
  const std::uint64_t second = table.add(address(64), 200, numbers);
  EXPECT_NE(first, second);
  const BlockTable::Block block = table.remove(address(64));
  EXPECT_EQ(block.bytes, 200u);
  EXPECT_FALSE(block.unseen);
}

TEST(BlockTableTest, BlockFirstSeenInATensorIsMarkedUnseen) {
  BlockTable table;
  NumberRange numbers;
  ASSERT_TRUE(table.create());
  const std::uint64_t serial = table.find_or_add_unseen(address(128), 8, numbers);
  EXPECT_EQ(table.find_or_add_unseen(address(128), 8, numbers), serial);
  EXPECT_TRUE(table.remove(address(128)).unseen);
}

TEST(BlockTableTest, MoreBlocksOfOneHomeThanItsLineHoldsAreFoundAndRemoved) {
  BlockTable table;
  NumberRange numbers;
  ASSERT_TRUE(table.create());
  // Sixteen-byte neighbours: four to a line, so further addresses are added until some line has spilled.
  std::vector<std::uint64_t> serials;
  for (std::uint64_t i = 0; i < 5; ++i) serials.push_back(table.add(address(4096 + 8 * i), i + 1, numbers));
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(table.find(address(4096 + 8 * i)), serials[i]);
  // A new lifetime at an address that is still there: the old one is gone, whichever line it stood in.
  const std::uint64_t again = table.add(address(4096 + 32), 9, numbers);
  EXPECT_NE(again, serials[4]);
  EXPECT_EQ(table.remove(address(4096 + 32)).serial, again);
  EXPECT_EQ(table.remove(address(4096 + 32)).serial, 0u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(table.remove(address(4096 + 8 * i)).bytes, i + 1);
}

TEST(BlockTableTest, PageAlignedBlocksDoNotCrowd) {
  BlockTable table;
  NumberRange numbers;
  ASSERT_TRUE(table.create());
  std::set<std::uint64_t> serials;
  for (std::uint64_t i = 1; i <= 100000; ++i)
    serials.insert(table.add(address(i * 4096 * 3 + 64), 1, numbers));
  EXPECT_EQ(serials.count(0), 0u) << "a block had no room";
  EXPECT_EQ(serials.size(), 100000u);
}

TEST(NumberRangeTest, ThreadsNeverGetTheSameNumber) {
  std::atomic<std::uint64_t> source{0};
  std::vector<std::vector<std::uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& own : taken) {
    threads.emplace_back([&] {
      NumberRange numbers;
      for (int i = 0; i < 10000; ++i) own.push_back(numbers.take(source));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& own : taken) all.insert(own.begin(), own.end());
  EXPECT_EQ(all.size(), 40000u);
  EXPECT_EQ(all.count(0), 0u);
}

TEST(BlockTableTest, ManyThreadsAgree) {
  BlockTable table;
  ASSERT_TRUE(table.create());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      NumberRange own;
      for (std::uint64_t i = 0; i < 20000; ++i) {
        const void* block = address(((t * 20000 + i % 500) + 1) * 64);
        const std::uint64_t serial = table.add(block, i, own);
        if (serial == 0 || table.remove(block).serial != serial) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(TensorTableTest, SameImplOnSameStorageKeepsItsNumberAnotherStorageGetsAnother) {
  TensorTable table;
  NumberRange numbers;
  ASSERT_TRUE(table.create());
  bool evicted = false;
  const std::uint64_t id = table.id(address(64), 1, numbers, evicted);
  EXPECT_EQ(table.id(address(64), 1, numbers, evicted), id);
  EXPECT_NE(table.id(address(64), 2, numbers, evicted), id);
  EXPECT_NE(table.id(address(128), 1, numbers, evicted), id);
  EXPECT_FALSE(evicted);
}

TEST(TensorTableTest, LiveTensorsNeverShareANumberEvenWhenTheTableOverflows) {
  TensorTable table;
  NumberRange numbers;
  ASSERT_TRUE(table.create());
  std::set<std::uint64_t> ids;
  bool evicted = false;
  for (std::uint64_t i = 1; i <= 400000; ++i) ids.insert(table.id(address(i * 192), 1, numbers, evicted));
  EXPECT_EQ(ids.size(), 400000u);
  EXPECT_TRUE(evicted);
}

TEST(StringInternerTest, SameTextSameReferenceAndTextComesBack) {
  SharedMemory memory;
  StringInterner strings;
  ASSERT_TRUE(memory.create(0) && strings.create(&memory));
  const format::StrRef add = strings.find_or_add("aten::add");
  EXPECT_EQ(strings.find_or_add("aten::add"), add);
  EXPECT_NE(strings.find_or_add("aten::sub"), add);
  EXPECT_EQ(strings.text(add), "aten::add");
  EXPECT_EQ(strings.find_or_add(""), format::kStrNone);
}

TEST(StringInternerTest, UsersNamesLeaveRoomForOperators) {
  SharedMemory memory;
  StringInterner strings;
  ASSERT_TRUE(memory.create(0) && strings.create(&memory));
  const std::string tail(100, 'x');
  bool full = false;
  for (int i = 0; i < 60000 && !full; ++i) {
    full = strings.find_or_add(std::to_string(i) + tail, StringInterner::Share::kThreeQuarters) ==
           format::kStrInline;
  }
  EXPECT_TRUE(full);
  EXPECT_NE(strings.find_or_add("aten::still_room"), format::kStrInline);
}

TEST(ValueWriterTest, WhatHasNoRoomIsLeftOutAndSaidSo) {
  unsigned char room[64];
  ValueWriter values(room, sizeof room);
  values.integer(1);
  EXPECT_FALSE(values.cut());
  const std::int64_t dims[] = {1, 2, 3, 4};
  values.tensor({1, 1, dims, 4, 6, 0, -1, 0});
  EXPECT_TRUE(values.full());
  values.boolean(true);
  EXPECT_EQ(values.count(), 1u);
  EXPECT_EQ(values.bytes(), 16u);
}

TEST(ValueWriterTest, LongListIsCutWithoutStoppingTheRest) {
  unsigned char room[4096];
  ValueWriter values(room, sizeof room);
  const std::vector<std::int64_t> items(500, 7);
  values.integers(items.data(), items.size());
  values.boolean(true);
  EXPECT_TRUE(values.cut());
  EXPECT_FALSE(values.full());
  EXPECT_EQ(values.count(), 2u);
}

}  // namespace
}  // namespace tensortap::probe
