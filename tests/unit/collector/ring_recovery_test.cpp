#include "collector/ring_recovery.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "tests/support/ring_samples.h"
#include "tests/unit/collector/ring_memory.h"

namespace tensortap::collector {
namespace {

using format::Cursor;
using test::RingMemory;

struct Recovered {
  std::string lines;
  std::vector<std::vector<Cursor>> cursors;  // of each chunk
  std::vector<std::string> chunks;
  Recovery recovery;
};

Recovered recover(RingMemory& memory, const std::vector<Cursor>& committed = {}) {
  auto image = RingImage::open(memory.share());
  EXPECT_TRUE(image.ok()) << (image ? "" : image.error().to_string());
  Recovered all;
  auto result = image->recover(committed, [&](std::string_view lines, const std::vector<Cursor>& cursors) {
    all.lines += lines;
    all.chunks.emplace_back(lines);
    all.cursors.push_back(cursors);
    return format::Status();
  });
  EXPECT_TRUE(result.ok());
  all.recovery = *result;
  return all;
}

std::string refusal(UniqueFd fd) {
  auto image = RingImage::open(std::move(fd));
  return image ? "accepted" : image.error().message;
}

TEST(RingRecovery, GoesOnAtTheCommittedPosition) {
  RingMemory memory(4);
  memory.put_line(0, R"({"n":1})", 1);
  const std::uint64_t second = memory.put_line(0, R"({"n":2})", 2);
  memory.put_line(0, R"({"n":3})", 3);
  const Recovered all = recover(memory, {{0, second}});
  EXPECT_EQ(all.lines, "{\"n\":2}\n{\"n\":3}\n");
  EXPECT_EQ(all.recovery.records, 2u);
  ASSERT_EQ(all.cursors.size(), 1u);
  EXPECT_EQ(all.cursors[0], (std::vector<Cursor>{{0, memory.ring(0).head}}));
}

TEST(RingRecovery, HandsOutNothingWhenAllIsCommitted) {
  RingMemory memory(4);
  memory.put_line(0, R"({"n":1})", 1);
  const Recovered all = recover(memory, {{0, memory.ring(0).head}});
  EXPECT_TRUE(all.chunks.empty());
}

TEST(RingRecovery, MergesRingsByTimeAndPutsRingZeroFirst) {
  RingMemory memory(4);
  memory.put_line(2, R"({"r":2,"t":5})", 5);
  memory.put_line(2, R"({"r":2,"t":9})", 9);
  memory.put_line(1, R"({"r":1,"t":7})", 7);
  memory.put_line(0, R"({"r":0,"t":5})", 5);
  memory.put_line(0, R"({"r":0,"t":9})", 9);
  EXPECT_EQ(
      recover(memory).lines,
      "{\"r\":0,\"t\":5}\n{\"r\":2,\"t\":5}\n{\"r\":1,\"t\":7}\n{\"r\":0,\"t\":9}\n{\"r\":2,\"t\":9}\n");
}

TEST(RingRecovery, CountsTheBytesThatWereNotUtf8) {
  RingMemory memory(4);
  const format::RingSamples samples = format::ring_samples();
  ASSERT_EQ(::pwrite(memory.fd(), samples.strings.data(), samples.strings.size(),
                     static_cast<off_t>(format::strings_offset())),
            static_cast<ssize_t>(samples.strings.size()));
  memory.header().strings_tail = samples.strings.size();
  memory.put(1, samples.records[2]);  // a module whose name holds a byte that is none
  const Recovered all = recover(memory);
  EXPECT_NE(all.lines.find("\xEF\xBF\xBD"), std::string::npos) << all.lines;
  EXPECT_EQ(all.recovery.replaced_bytes, 1u);
}

TEST(RingRecovery, KeepsARingsOrderEvenWhenItsTimesFallBack) {
  RingMemory memory(4);
  memory.put_line(1, R"({"n":1})", 50);
  memory.put_line(1, R"({"n":2})", 10);
  memory.put_line(0, R"({"n":3})", 40);
  EXPECT_EQ(recover(memory).lines, "{\"n\":3}\n{\"n\":1}\n{\"n\":2}\n");
}

TEST(RingRecovery, CrossesSegmentsOverPadsOfAnyLength) {
  RingMemory memory(8);
  std::string expected;
  int n = 0;
  // Records of a size that leaves 8 bytes at the end of the first segment, then others.
  const auto put = [&](std::size_t record_bytes) {
    std::string line = "{\"n\":" + std::to_string(n++) + ",\"fill\":\"";
    line += std::string(record_bytes - sizeof(format::LineRecord) - line.size() - 3, 'x') + "\"}";
    memory.put_line(1, line, static_cast<std::uint64_t>(n));
    expected += line + "\n";
  };
  put(format::kSegmentBytes / 2);
  put(format::kSegmentBytes / 2 - 8);
  for (int i = 0; i < 7; ++i) put(format::kSegmentBytes / 2 - 16);
  const Recovered all = recover(memory);
  EXPECT_EQ(all.lines, expected);
  EXPECT_EQ(all.recovery.malformed_rings, 0u);
}

TEST(RingRecovery, EveryChunkCarriesTheCursorsThatItReaches) {
  RingMemory memory(200);
  std::string expected;
  for (int i = 0; i < 6000; ++i) {
    const std::string line = "{\"n\":" + std::to_string(i) + ",\"fill\":\"" + std::string(400, 'x') + "\"}";
    memory.put_line(static_cast<std::uint32_t>(i % 3), line, static_cast<std::uint64_t>(i));
    expected += line + "\n";
  }
  const Recovered all = recover(memory);
  EXPECT_EQ(all.lines, expected);
  ASSERT_GT(all.chunks.size(), 2u);
  // Interrupted after any chunk, the rest is exactly what is missing.
  std::string before;
  std::vector<Cursor> reached;
  for (std::size_t i = 0; i < all.chunks.size(); ++i) {
    before += all.chunks[i];
    reached.insert(reached.end(), all.cursors[i].begin(), all.cursors[i].end());
    EXPECT_EQ(before + recover(memory, reached).lines, expected);
  }
}

TEST(RingRecovery, ARecordOfWildLengthEndsItsRingAlone) {
  for (const std::uint32_t length : {0u, 8u, 12u, 17u, 0x7FFFFFF8u, 0xFFFFFFF8u, 0xFFFFFFFFu}) {
    RingMemory memory(8);
    memory.put_line(1, R"({"n":1})", 1);
    const std::uint64_t bad = memory.put_line(1, R"({"n":2})", 2);
    memory.put_line(1, R"({"n":3})", 3);
    memory.put_line(2, R"({"n":4})", 4);
    std::memcpy(memory.at(1, bad), &length, sizeof length);
    const Recovered all = recover(memory);
    EXPECT_EQ(all.lines, "{\"n\":1}\n{\"n\":4}\n") << length;
    EXPECT_EQ(all.recovery.malformed_rings, 1u);
    EXPECT_EQ(all.recovery.unread_bytes, memory.ring(1).head - bad);
  }
}

TEST(RingRecovery, WildPositionsEndTheirRingAlone) {
  const std::uint64_t far = format::kRingSegments * format::kSegmentBytes;
  for (const std::uint64_t head :
       {std::uint64_t{3}, far + 8, ~std::uint64_t{0}, ~std::uint64_t{7}, std::uint64_t{1} << 63}) {
    RingMemory memory(8);
    memory.put_line(1, R"({"n":1})", 1);
    memory.put_line(0, R"({"n":0})", 0);
    memory.ring(1).head = head;
    const Recovered all = recover(memory);
    EXPECT_EQ(all.lines, "{\"n\":0}\n") << head;
    EXPECT_EQ(all.recovery.malformed_rings, 1u) << head;
    EXPECT_LE(all.recovery.unread_bytes, far);
  }
}

TEST(RingRecovery, ACommittedPositionBeyondTheHeadYieldsNothing) {
  RingMemory memory(8);
  memory.put_line(1, R"({"n":1})", 1);
  const Recovered all = recover(memory, {{1, 1 << 20}, {77777, 8}});
  EXPECT_TRUE(all.lines.empty());
  EXPECT_EQ(all.recovery.malformed_rings, 1u);
}

TEST(RingRecovery, SegmentsOutsideThePoolAreNotRead) {
  for (const std::uint16_t index : {0, 9, 0xFFFF}) {
    RingMemory memory(8);
    memory.put_line(1, R"({"n":1})", 1);
    memory.ring(1).segment[0] = index;
    EXPECT_EQ(recover(memory).recovery.malformed_rings, 1u) << index;
  }
}

TEST(RingRecovery, WildCountsInTheHeaderAreBounded) {
  RingMemory memory(8);
  memory.put_line(0, R"({"n":1})", 1);
  memory.header().rings_used = 0xFFFFFFFF;
  memory.header().strings_tail = ~std::uint64_t{0};
  EXPECT_EQ(recover(memory).lines, "{\"n\":1}\n");
}

TEST(RingRecovery, RandomBytesCostNothingButTheirRings) {
  std::mt19937_64 random(7);  // fixed: a failure can be repeated
  for (int round = 0; round < 60; ++round) {
    RingMemory memory(8);
    for (std::uint32_t ring = 0; ring < 6; ++ring) {
      for (int i = 0; i < 20; ++i)
        memory.put_line(ring, R"({"kind":"op","text":"abcdefgh"})", random() % 100);
    }
    for (int i = 0; i < 40; ++i) {
      const auto ring = static_cast<std::uint32_t>(random() % 6);
      const std::uint64_t word = random() >> (random() % 64);
      std::memcpy(memory.at(ring, random() % (memory.ring(ring).head / 8) * 8), &word, sizeof word);
    }
    if (round % 3 == 0) memory.ring(3).head = random() >> (random() % 64);
    const Recovered all = recover(memory);
    EXPECT_LE(all.recovery.records, 120u);
  }
}

TEST(RingImage, RefusesWhatIsNoSealedMemfdOfOurs) {
  RingMemory unsealed(4, false);
  EXPECT_NE(refusal(unsealed.share()).find("F_SEAL_SHRINK"), std::string::npos);

  std::FILE* file = std::tmpfile();
  EXPECT_NE(refusal(UniqueFd(::dup(::fileno(file)))).find("not a memfd"), std::string::npos);
  std::fclose(file);

  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const UniqueFd write_end(pipe_fds[1]);
  EXPECT_NE(refusal(UniqueFd(pipe_fds[0])).find("not a memfd"), std::string::npos);

  UniqueFd empty(::memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ::fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  EXPECT_NE(refusal(std::move(empty)).find("too short"), std::string::npos);
}

TEST(RingImage, RefusesAHeaderThatDoesNotFit) {
  const auto refusal_of = [](auto spoil) {
    RingMemory memory(4);
    spoil(memory.header());
    return refusal(memory.share());
  };
  EXPECT_NE(refusal_of([](auto& head) { head.magic = 1; }).find("magic"), std::string::npos);
  EXPECT_NE(refusal_of([](auto& head) { head.version = 9; }).find("version"), std::string::npos);
  EXPECT_NE(refusal_of([](auto& head) { head.ring_count = 1; }).find("geometry"), std::string::npos);
  EXPECT_NE(refusal_of([](auto& head) { head.strings_bytes = ~std::uint64_t{0}; }).find("geometry"),
            std::string::npos);
  EXPECT_NE(refusal_of([](auto& head) { head.pool_segments = 5; }).find("size"), std::string::npos);
  EXPECT_NE(refusal_of([](auto& head) { head.pool_segments = 0xFFFFFFFF; }).find("size"), std::string::npos);
  EXPECT_NE(refusal_of([](auto& head) { head.total_bytes += 1; }).find("size"), std::string::npos);
}

TEST(RingImage, TalliesCountersAndDropsByName) {
  RingMemory memory(4);
  memory.put_line(0, "{}", 1);
  memory.put_line(1, "{}", 1);
  memory.ring(1).dropped[static_cast<std::size_t>(format::DropCause::kRingFull)] = 3;
  memory.ring(1).offered += 4;  // three dropped, one in flight when it was killed
  memory.header().counters[static_cast<std::size_t>(format::Counter::kCutAtStop)] = 2;
  auto image = RingImage::open(memory.share());
  const RingTally tally = image->tally();
  ASSERT_EQ(tally.rings.size(), 2u);
  EXPECT_EQ(tally.rings[1].offered, 5u);
  EXPECT_EQ(tally.rings[1].stored, 1u);
  EXPECT_EQ(tally.rings[1].dropped, (Counts{{"ring_full", 3}}));
  const Ledger ledger = settle_rings(tally, {{0, 32, 1}, {1, 32, 1}}, {});
  EXPECT_EQ(ledger.offered, 6u);
  EXPECT_EQ(ledger.dropped, (Counts{{"ring_full", 3}, {"in_flight", 1}}));
  EXPECT_EQ(tally.counters, (Counts{{"cut_at_stop", 2}}));
}

// Every ring claims the same segments: decoded once for each, they would fill a disk.
TEST(RingRecovery, ASegmentIsReadOnceOnly) {
  RingMemory memory(4);
  for (int n = 0; n < 100; ++n) memory.put_line(0, "{}", 1);
  for (std::uint32_t ring = 1; ring < 1000; ++ring) {
    memory.ring(ring).segment[0] = memory.ring(0).segment[0].load();
    memory.ring(ring).head = memory.ring(0).head.load();
  }
  memory.header().rings_used = 1000;
  auto image = RingImage::open(memory.share());
  std::uint64_t lines = 0;
  const auto recovery = image->recover({}, [&](std::string_view text, const std::vector<format::Cursor>&) {
    lines += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
    return format::Status();
  });
  ASSERT_TRUE(recovery.ok());
  EXPECT_EQ(lines, 100u);
  EXPECT_EQ(recovery->malformed_rings, 999u);
  EXPECT_GT(recovery->unread_bytes, 0u);
}

TEST(RingRecovery, NumbersOfRecordsGoOnFromTheCommittedOnes) {
  RingMemory memory(4);
  memory.put_line(1, "{}", 1);
  const std::uint64_t second = memory.put_line(1, "{}", 2);
  memory.put_line(1, "{}", 3);
  auto image = RingImage::open(memory.share());
  const auto reached_from = [&](const format::Cursor& from) {
    std::vector<format::Cursor> reached;
    EXPECT_TRUE(image
                    ->recover({from},
                              [&](std::string_view, const std::vector<format::Cursor>& cursors) {
                                reached = cursors;
                                return format::Status();
                              })
                    .ok());
    return reached;
  };
  const std::uint64_t head = memory.ring(1).head;
  EXPECT_EQ(reached_from({1, second, 41}), (std::vector<format::Cursor>{{1, head, 43}}));
  EXPECT_EQ(reached_from({1, second, 0}), (std::vector<format::Cursor>{{1, head, 0}})) << "not known";
  EXPECT_EQ(reached_from({1, 0, 0}), (std::vector<format::Cursor>{{1, head, 3}}));
}

// A name of megabytes in the table, and many records that name it.
TEST(RingRecovery, AnImageBecomesNoMoreTextThanABound) {
  RingMemory memory(8);
  const std::uint32_t length = 3 << 20;
  unsigned char* strings = memory.strings();
  std::memcpy(strings, &length, sizeof length);
  std::memset(strings + sizeof length, 'n', length);
  memory.header().strings_tail = sizeof length + length;
  for (int n = 0; n < 600; ++n) {
    format::SpanStartRecord record{};
    record.header = {sizeof record, format::RecordType::kSpanStart, 0, static_cast<std::uint64_t>(n)};
    record.number = static_cast<std::uint64_t>(n) + 1;
    record.thread = 1;
    memory.put(1, std::string(reinterpret_cast<const char*>(&record), sizeof record));
  }
  auto image = RingImage::open(memory.share());
  std::uint64_t bytes = 0;
  const auto recovery = image->recover({}, [&](std::string_view text, const std::vector<format::Cursor>&) {
    bytes += text.size();
    return format::Status();
  });
  ASSERT_TRUE(recovery.ok());
  EXPECT_GT(bytes, std::uint64_t{3} << 20) << "the name is in the lines";
  EXPECT_TRUE(recovery->too_much);
  EXPECT_LT(bytes, 33 * memory.bytes());
  EXPECT_GT(recovery->unread_bytes, 0u);
}

TEST(RingImage, BoundsWhatIsNotCommitted) {
  RingMemory memory(4);
  const std::uint64_t second = (memory.put_line(1, "{}", 1), memory.put_line(1, "{}", 1));
  auto image = RingImage::open(memory.share());
  EXPECT_EQ(image->pending_bytes({{1, second}}), memory.ring(1).head - second);
  EXPECT_EQ(image->pending_bytes({{1, memory.ring(1).head}}), 0u);
}

}  // namespace
}  // namespace tensortap::collector
