// What the writer writes, the reader reads: on random events of all kinds; and no bytes crash the reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "format/line_reader.h"
#include "format/line_writer.h"
#include "format/trace_reader.h"
#include "format_events.h"
#include "format_files.h"
#include "tests/support/event_log.h"

namespace tensortap::format {
namespace {

// Compares the one event it is shown.
template <class Expected>
struct Expect : EachEvent<Expect<Expected>> {
  explicit Expect(const Expected& event) : expected(event) {}
  template <class Event>
  void event(const Event& shown, const Place&) {
    if constexpr (std::is_same_v<Event, Expected>) {
      EXPECT_EQ(parts(shown), parts(expected));
      ++seen;
    } else {
      ADD_FAILURE() << "an event of another kind";
    }
  }
  const Expected& expected;
  int seen = 0;
};

template <class Event>
void expect_round_trip(LineReader& reader, const Event& event) {
  std::string line;
  LineWriter writer(line);
  writer.write(event);
  ASSERT_EQ(line.back(), '\n');
  ASSERT_EQ(line.find('\n'), line.size() - 1) << line;
  ASSERT_EQ(writer.replaced_bytes(), 0u) << line;
  Expect<Event> expect(event);
  const Status status = reader.read(line, Place{}, expect);
  ASSERT_TRUE(status.ok()) << status.error().to_string() << "\n" << line;
  ASSERT_EQ(expect.seen, 1);
}

TEST(RoundTrip, RandomEventsOfAllKindsAreReadAsWritten) {
  LineReader reader;
  for (std::uint64_t seed = 0; seed < 4000 && !::testing::Test::HasFailure(); ++seed) {
    RandomEvents random(seed);
    random.each_kind([&](const auto& event) { expect_round_trip(reader, event); });
  }
}

// A whole stream of them, through a file, is the same stream.
using RoundTripFile = TempFolder;
TEST_F(RoundTripFile, RandomStreamsAreReadAsWritten) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomEvents random(seed);
    std::string written;
    LineWriter writer(written);
    for (std::uint64_t i = random.below(300); i > 0; --i) {
      random.any_kind([&](const auto& event) { writer.write(event); });
    }
    write("stream.jsonl", written);
    EventLog log;
    const ReadReport report = TraceReader::open(path("stream.jsonl"))->read_all(log);
    EXPECT_EQ(report.bad_lines, 0u);
    EXPECT_EQ(log.lines, written);  // that a line means its event is the test above
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

// What a text of any bytes becomes: told by decoding, not by tables of lead bytes as the writer does.
std::string as_utf8(std::string_view bytes, std::uint64_t& replaced) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0;
    for (std::size_t tried = 1; tried <= 4 && length == 0 && at + tried <= bytes.size(); ++tried) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
      std::uint32_t code = tried == 1 ? byte(0) : byte(0) & (0x7Fu >> tried);
      bool good = tried == 1 ? byte(0) < 0x80 : byte(0) >> (7 - tried) == (2 << tried) - 2;
      for (std::size_t i = 1; i < tried; ++i) {
        good = good && byte(i) >> 6 == 2;
        code = code << 6 | (byte(i) & 0x3Fu);
      }
      constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
      good = good && code >= kSmallest[tried - 1] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
      if (good) length = tried;
    }
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++replaced;
      ++at;
    } else {
      out.append(bytes, at, length);
      at += length;
    }
  }
  return out;
}

TEST(RoundTrip, TextsOfAnyBytesAreReadAsUtf8AndEachReplacedByteIsCounted) {
  LineReader reader;
  RandomEvents random(3);
  std::uint64_t all_replaced = 0;
  for (int i = 0; i < 30000; ++i) {
    const std::string name = random.hostile_bytes();
    std::uint64_t replaced = 0;
    const std::string expected = as_utf8(name, replaced);
    std::string line;
    LineWriter writer(line);
    writer.write(SpanEnd{name, 1, ""});
    ASSERT_EQ(writer.replaced_bytes(), replaced) << line;
    ASSERT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    const SpanEnd event{expected, 1, ""};
    Expect<SpanEnd> expect(event);
    const Status status = reader.read(line, Place{}, expect);
    ASSERT_TRUE(status.ok()) << status.error().to_string() << "\n" << line;
    ASSERT_EQ(expect.seen, 1);
    all_replaced += replaced;
  }
  EXPECT_GT(all_replaced, 30000u);
}

std::string random_line(RandomEvents& random) {
  std::string line;
  LineWriter writer(line);
  random.any_kind([&](const auto& event) { writer.write(event); });
  return line;
}

void damage(std::string& line, RandomEvents& random) {
  static constexpr std::string_view kBytes = "{}[]\",:\\0e-.nt \n\xC3\xA9\xED\xFF";
  for (std::uint64_t i = random.below(4); i > 0 && !line.empty(); --i) {
    const std::size_t at = random.below(line.size());
    switch (random.below(5)) {
      case 0:
        line[at] = kBytes[random.below(kBytes.size())];
        break;
      case 1:
        line.insert(at, 1, kBytes[random.below(kBytes.size())]);
        break;
      case 2:
        line.erase(at, random.below(8) + 1);
        break;
      case 3:
        line.insert(at, line, at, random.below(30));
        break;
      default:
        line.resize(at);
        break;
    }
  }
}

constexpr Place kPlace{7, 8, 9000};

// A message, and an offset inside the line.
void expect_place(const Error& error, std::string_view line) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(error.line, kPlace.line);
  EXPECT_TRUE(error.has_offset);
  EXPECT_GE(error.byte_offset, kPlace.byte_offset);
  EXPECT_LE(error.byte_offset, kPlace.byte_offset + line.size());
}

// A damaged line is refused with a message, or read as something that is itself written and read without
// change.
TEST(RoundTrip, DamagedLinesNeverCrashTheReaderNorAreReadAmbiguously) {
  LineReader reader;
  KindReader kinds;
  RandomEvents random(7);
  std::uint64_t refused = 0;
  for (int i = 0; i < 60000; ++i) {
    std::string line = random_line(random);
    if (!line.empty()) line.pop_back();
    damage(line, random);
    (void)kinds.kind(line);
    EventLog first;
    const Status status = reader.read(line, kPlace, first);
    if (!status) {
      ++refused;
      expect_place(status.error(), line);
      ASSERT_TRUE(first.lines.empty()) << "a refused line was shown: " << line;
      continue;
    }
    EventLog second;
    ASSERT_TRUE(reader.read(first.lines, kPlace, second).ok()) << line << "\n" << first.lines;
    ASSERT_EQ(first.lines, second.lines) << line;
  }
  EXPECT_GT(refused, 20000u);
}

// No line is good before its last byte.
TEST(RoundTrip, LinesThatAreCutAreRefusedWhereverTheyAreCut) {
  LineReader reader;
  RandomEvents random(5);
  for (int i = 0; i < 200; ++i) {
    std::string line = random_line(random);
    line.pop_back();
    if (line.size() > 2000) continue;
    for (std::size_t cut = 0; cut < line.size(); ++cut) {
      EventLog log;
      const Status status = reader.read(std::string_view(line).substr(0, cut), kPlace, log);
      ASSERT_FALSE(status.ok()) << cut << " of " << line;
      expect_place(status.error(), line);
      ASSERT_TRUE(log.lines.empty());
    }
  }
}

TEST(RoundTrip, RandomBytesNeverCrashTheReader) {
  LineReader reader;
  KindReader kinds;
  RandomEvents random(11);
  EventVisitor nobody;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random.below(300), '\0');
    for (char& c : bytes) c = static_cast<char>(random.below(256));
    if (random.coin()) bytes.insert(0, "{\"kind\":\"op\",");
    const Status status = reader.read(bytes, kPlace, nobody);
    ASSERT_FALSE(status.ok());
    expect_place(status.error(), bytes);
    (void)kinds.kind(bytes);
  }
}

}  // namespace
}  // namespace tensortap::format
