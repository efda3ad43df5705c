#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "tests/support/ring_samples.h"
#include "tests/unit/core/capture_fixture.h"

namespace tensortap::probe::test {
namespace {

// Records of random sizes whose content says which one it is.
void put_numbered(RingProducer& ring, std::uint64_t number, std::uint32_t padding, std::uint64_t time) {
  const std::string line = "{\"n\":" + std::to_string(number) + "}" + std::string(padding, ' ') + "\n";
  const auto bytes = static_cast<std::uint32_t>(format::round_up_8(sizeof(format::LineRecord) + line.size()));
  unsigned char* room = ring.reserve(bytes);
  if (room == nullptr) return;
  auto* record = reinterpret_cast<format::LineRecord*>(room);
  record->header = {bytes, format::RecordType::kLine, 0, time};
  record->length = static_cast<std::uint32_t>(line.size());
  record->zero = 0;
  std::memcpy(room + sizeof *record, line.data(), line.size());
  ring.commit(bytes);
}

std::vector<std::uint64_t> numbers_in(const std::string& text) {
  std::vector<std::uint64_t> numbers;
  for (std::size_t at = text.find("{\"n\":"); at != std::string::npos; at = text.find("{\"n\":", at + 1)) {
    numbers.push_back(std::strtoull(text.c_str() + at + 5, nullptr, 10));
  }
  return numbers;
}

struct RingTest : ::testing::Test {
  SharedMemory memory;
  RingProducer ring;
  void SetUp() override {
    ASSERT_TRUE(memory.create(2 << 20));
    memory.header->rings_used.store(2);
    ring.attach(&memory, 1);
  }
};

TEST_F(RingTest, AThreadThatMayWaitLosesNothing) {
  memory.wait_for_room.store(true);
  constexpr std::uint64_t kRecords = 100000;  // several times what the pool holds
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kRecords; ++i) put_numbered(ring, i, 60, i);
    memory.wait_for_room.store(false);
  });
  const auto& waits = memory.header->counters[static_cast<std::size_t>(format::Counter::kWaitedForRoom)];
  while (waits.load() == 0 && memory.wait_for_room.load()) std::this_thread::yield();  // now it is full
  EXPECT_GT(waits.load(), 0u);
  Drain drain(memory);
  std::string text, all;
  Cursors cursors;
  while (memory.wait_for_room.load() || drain.pending_bytes() != 0) {
    text.clear();
    if (drain.collect(text, cursors)) drain.release(cursors);
    all += text;
  }
  writer.join();
  EXPECT_EQ(numbers_in(all).size(), kRecords);
  EXPECT_EQ(ring.header()->dropped[0].load(), 0u);
}

TEST_F(RingTest, NobodyWaitsForADrainThatIsNotThereAndTheSessionNeverForItself) {
  RingProducer own;
  own.attach(&memory, 0);
  memory.wait_for_room.store(true);
  for (std::uint64_t i = 0; i < 100000; ++i) put_numbered(own, i, 60, i);
  EXPECT_GT(own.header()->dropped[0].load(), 0u);
  memory.wait_for_room.store(false);
  for (std::uint64_t i = 0; i < 100000; ++i) put_numbered(ring, i, 60, i);
  EXPECT_GT(ring.header()->dropped[0].load(), 0u);
}

TEST_F(RingTest, RecordsOfAllSizesComeBackWholeAndInOrder) {
  Drain drain(memory);
  std::mt19937 random(7);
  std::string text, all;
  Cursors cursors;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    put_numbered(ring, i, random() % 3000 == 0 ? 15000 : random() % 90, i);
    if (random() % 50 == 0) {
      text.clear();
      while (drain.collect(text, cursors)) drain.release(cursors);
      all += text;
    }
  }
  text.clear();
  while (drain.collect(text, cursors)) drain.release(cursors);
  const std::vector<std::uint64_t> numbers = numbers_in(all + text);
  ASSERT_EQ(numbers.size(), 20000u);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i);
}

TEST_F(RingTest, BytesThatAreNotUtf8AreCountedWhenTheyAreWritten) {
  const format::RingSamples samples = format::ring_samples();
  std::string expected;
  format::RecordRenderer renderer(expected);
  for (const std::string& record : samples.records) {
    const auto bytes = static_cast<std::uint32_t>(record.size());
    unsigned char* room = ring.reserve(bytes);
    ASSERT_NE(room, nullptr);
    std::memcpy(room, record.data(), bytes);
    ring.commit(bytes);
    renderer.append(format::bytes_of(record), record.size(), 1, {memory.strings, format::kStringTableBytes});
  }
  Drain drain(memory);
  std::string text;
  Cursors cursors;
  while (drain.collect(text, cursors)) drain.release(cursors);
  EXPECT_EQ(text, expected);
  const auto counter = static_cast<std::size_t>(format::Counter::kReplacedBytes);
  EXPECT_EQ(memory.header->counters[counter].load(), renderer.replaced_bytes());
  EXPECT_GT(renderer.replaced_bytes(), 0u);
}

TEST_F(RingTest, SegmentsGoBackOnlyWhenAcknowledged) {
  Drain drain(memory);
  std::uint64_t stored = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) put_numbered(ring, i, 40, i);
  stored = memory.rings[1].stored.load();
  EXPECT_LT(stored, 100000u) << "the pool is smaller than that";
  std::string text;
  Cursors cursors;
  while (drain.collect(text, cursors)) {
  }
  put_numbered(ring, 1, 16000, 100000);
  EXPECT_EQ(memory.rings[1].stored.load(), stored) << "collected is not acknowledged";
  drain.release(cursors);
  put_numbered(ring, 1, 40, 100000);
  EXPECT_EQ(memory.rings[1].stored.load(), stored + 1);
}

TEST_F(RingTest, RewindSendsAgainFromTheGivenPosition) {
  Drain drain(memory);
  for (std::uint64_t i = 0; i < 10; ++i) put_numbered(ring, i, 0, i);
  std::string text;
  Cursors first;
  ASSERT_TRUE(drain.collect(text, first));
  EXPECT_EQ(first.at(0).records, 10u);
  for (std::uint64_t i = 10; i < 20; ++i) put_numbered(ring, i, 0, i);
  Cursors second;
  text.clear();
  ASSERT_TRUE(drain.collect(text, second));
  EXPECT_EQ(second.at(0).records, 20u);
  drain.rewind(first);
  text.clear();
  ASSERT_TRUE(drain.collect(text, second));
  EXPECT_EQ(numbers_in(text).front(), 10u);
  EXPECT_EQ(second.at(0).records, 20u) << "the same records have the same numbers";
  drain.rewind({});
  text.clear();
  ASSERT_TRUE(drain.collect(text, second));
  EXPECT_EQ(numbers_in(text).size(), 20u);
  EXPECT_EQ(second.at(0).records, 20u);
  drain.release(first);
  drain.rewind({});
  text.clear();
  ASSERT_TRUE(drain.collect(text, second));
  EXPECT_EQ(second.at(0).records, 20u) << "what was released is counted, too";
}

TEST_F(RingTest, ThreadsAreMergedByTime) {
  memory.header->rings_used.store(3);
  RingProducer other;
  other.attach(&memory, 2);
  for (std::uint64_t i = 0; i < 1000; ++i) put_numbered(i % 3 == 0 ? ring : other, i, i % 17, i);
  Drain drain(memory);
  std::string text;
  Cursors cursors;
  while (drain.collect(text, cursors)) {
  }
  const std::vector<std::uint64_t> numbers = numbers_in(text);
  ASSERT_EQ(numbers.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_F(RingTest, ProducerAndDrainAtTheSameTimeLoseNothing) {
  constexpr std::uint64_t kRecords = 200000;
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kRecords;) {
      const std::uint64_t before = memory.rings[1].stored.load(std::memory_order_relaxed);
      put_numbered(ring, i, i % 61, i);
      if (memory.rings[1].stored.load(std::memory_order_relaxed) != before) ++i;  // else full: once more
    }
    done.store(true);
  });
  Drain drain(memory);
  std::uint64_t next = 0;
  std::string text;
  Cursors cursors;
  for (bool last = false;;) {
    text.clear();
    if (!drain.collect(text, cursors)) {
      if (last) break;
      last = done.load();
      continue;
    }
    for (const std::uint64_t number : numbers_in(text)) ASSERT_EQ(number, next++);
    drain.release(cursors);
  }
  producer.join();
  EXPECT_EQ(next, kRecords);
}

}  // namespace
}  // namespace tensortap::probe::test
