// Many lines at once, and by several threads, are read as they are one by one: the same events, the same
// errors at the same places.
#include <gtest/gtest.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "format/event_batch.h"
#include "format/line_reader.h"
#include "format/line_writer.h"
#include "format/trace_reader.h"
#include "format_events.h"
#include "format_files.h"

namespace tensortap::format {
namespace {

// What a reading showed: each record written again with its place, and each error.
struct Log : EventVisitor {
  std::string text;
  std::string line;
  template <class Event>
  void log(const Event& event, const Place& place) {
    line.clear();
    LineWriter(line).write(event);
    text += std::to_string(place.index) + " " + std::to_string(place.line) + " " +
            std::to_string(place.byte_offset) + " " + line;
  }
  void log(const Error& error) { text += error.to_string() + "\n"; }
  void on_meta(const Meta& e, const Place& p) override { log(e, p); }
  void on_span_start(const SpanStart& e, const Place& p) override { log(e, p); }
  void on_span_end(const SpanEnd& e, const Place& p) override { log(e, p); }
  void on_op(const Op& e, const Place& p) override { log(e, p); }
  void on_tensor(const Tensor& e, const Place& p) override { log(e, p); }
  void on_tensor_stats(const TensorStats& e, const Place& p) override { log(e, p); }
  void on_memory(const Memory& e, const Place& p) override { log(e, p); }
  void on_device_memory(const DeviceMemory& e, const Place& p) override { log(e, p); }
  void on_device_interval(const DeviceInterval& e, const Place& p) override { log(e, p); }
  void on_gradient(const Gradient& e, const Place& p) override { log(e, p); }
  void on_edge(const Edge& e, const Place& p) override { log(e, p); }
  void on_terminal(const Terminal& e, const Place& p) override { log(e, p); }
};

bool is_white(std::string_view line) {
  LineReader reader;
  EventVisitor nobody;
  const Status status = reader.read(line, {}, nobody);
  return !status && status.error().message == "the line is empty";
}

std::string one_by_one(const std::string& text) {
  Log log;
  LineReader reader;
  Place place{0, 1, 0};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t lf = text.find('\n', begin);
    const std::size_t end = lf == std::string::npos ? text.size() : lf + 1;
    const std::string line = text.substr(begin, end - begin);
    if (!is_white(line)) {
      const Status status = reader.read(line, place, log);
      if (!status) log.log(status.error());
      ++place.index;
    }
    ++place.line;
    place.byte_offset += line.size();
    begin = end;
  }
  return log.text;
}

// `behind` is what stands behind the text: nobody may be misled by it.
std::string at_once(LineReader& reader, const std::string& text, std::string_view behind = "") {
  std::string padded = text + std::string(behind);
  padded.resize(text.size() + kReadableBehind, behind.empty() ? ' ' : behind.back());
  Log log;
  Place place{0, 1, 0};
  std::uint64_t bad = 0;
  const std::uint64_t good =
      reader.read_lines(std::string_view(padded).substr(0, text.size()), place, log, [&](const Error& error) {
        ++bad;
        log.log(error);
      });
  EXPECT_EQ(place.byte_offset, text.size());
  EXPECT_EQ(place.index, good + bad);
  return log.text;
}

std::string random_lines(RandomEvents& random, int count, bool damaged) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    LineWriter writer(text);
    const std::size_t begin = text.size();
    switch (random.below(9)) {
      case 0:
        writer.write(random.span_start());
        break;
      case 1:
        writer.write(random.span_end());
        break;
      case 2:
        writer.write(random.tensor());
        break;
      case 3:
        writer.write(random.memory());
        break;
      case 4:
        writer.write(random.edge());
        break;
      case 5:
        writer.write(random.tensor_stats());
        break;
      case 6:
        writer.write(random.meta());
        break;
      default:
        writer.write(random.op());
        break;
    }
    if (damaged && random.below(8) == 0) {
      static constexpr std::string_view kBytes = "{}[]\",:\\0e-.nt \n\r\t\v\f\xC2\x85\xE3\x80\x80\xFF}{";
      std::string line = text.substr(begin);
      for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
        const std::size_t at = random.below(3) == 0 ? line.size() - 1 : random.below(line.size());
        if (random.coin()) {
          line[at] = kBytes[random.below(kBytes.size())];
        } else {
          line.insert(at, 1, kBytes[random.below(kBytes.size())]);
        }
      }
      text.replace(begin, std::string::npos, line);
    }
    if (damaged && random.below(20) == 0) text += random.coin() ? "\n" : " \r\n";
  }
  return text;
}

TEST(ManyLines, AreReadAsTheyAreOneByOne) {
  LineReader reader;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    RandomEvents random(seed);
    const std::string text = random_lines(random, 1 + static_cast<int>(random.below(200)), seed % 5 != 0);
    ASSERT_EQ(at_once(reader, text), one_by_one(text)) << "seed " << seed;
  }
}

TEST(ManyLines, ARecordMustBeAloneInItsLine) {
  const std::string end = R"({"kind":"span_end","id":"a","duration_ns":1})";
  LineReader reader;
  for (const std::string& bad :
       {end + end + "\n", end + " " + end + "\n", end + "}\n", "{" + end + "\n", end + "\n,\n" + end + "\n",
        std::string("{\"kind\":\"span_end\",\n\"id\":\"a\"}\n"), "[" + end + "\n]\n" + end + "\n",
        std::string("{\"kind\":\"span_end\",\"id\":\"a\",\"x\":[\n") + end + "\n" + end + "\n]}\n",
        end + "\n\xE3\x80\x80" + end + "\xC2\x85\n\xE2\x80\x83\n" + end + "\n\n",
        std::string("{\"kind\":\"span_end\",\"id\":\"a\"\n}\n") + end + "\n"}) {
    const std::string text = end + "\n" + bad + end + "\n";
    EXPECT_EQ(at_once(reader, text), one_by_one(text)) << text;
  }
}

TEST(ManyLines, WhatStandsBehindTheTextIsNotRead) {
  const std::string end = R"({"kind":"span_end","id":"a","duration_ns":1)";
  LineReader reader;
  for (const char* behind : {"}", ",\"x\":1}", "{", "\"", "0}", ",,,,", "]}", "\xFF", ":"}) {
    for (const std::string& text :
         {end + "}\n" + end, end + "}\n" + end + "\n", end + "}\n", end + ",\"x\":{}\n", end + ",\"x\":[{}\n",
          end + ",\"x\":1\n", end + ",\"x\"\n"}) {
      EXPECT_EQ(at_once(reader, text, behind), one_by_one(text)) << text << "|" << behind;
    }
  }
}

TEST(ManyLines, LinesOfAnyLengthAreRead) {
  const auto line = [](std::size_t bytes) {
    std::string text;
    const std::string name(bytes, 'x');
    SpanStart span;
    span.id = "a";
    span.name = name;
    LineWriter(text).write(span);
    return text;
  };
  std::string text;
  for (const std::size_t bytes : {1, 3000, 10, 140'000, 1, 2048, 131'000, 131'072, 300'000, 5})
    text += line(bytes);
  LineReader reader;
  EXPECT_EQ(at_once(reader, text), one_by_one(text));
}

TEST(ManyLines, ManyBadLinesCostNoMoreThanThemselves) {
  // Each is what simdjson refuses for all lines around it.
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += i % 3 == 0 ? span_end_line(1) : "{\"kind\":\"span_end\",\"id\":\"\xFF\"}\n";
  LineReader reader;
  EXPECT_EQ(at_once(reader, text), one_by_one(text));
}

TEST(EventBatch, ShowsLaterWhatWasRead) {
  LineReader reader;
  EventBatch batch;  // used again and again
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomEvents random(seed);
    const std::string text = random_lines(random, 40, seed % 2 == 0);
    batch.set_lines(text);
    batch.read(reader);
    Log log;
    batch.replay({0, 1, 0}, log);
    std::string expected = one_by_one(text), records;
    std::vector<std::string> errors;
    for (std::size_t begin = 0; begin < expected.size();) {
      const std::size_t end = expected.find('\n', begin) + 1;
      const std::string line = expected.substr(begin, end - begin);
      if (line.starts_with("line ")) {
        errors.push_back(line);
      } else {
        records += line;
      }
      begin = end;
    }
    EXPECT_EQ(log.text, records);
    EXPECT_EQ(batch.bad_lines(), errors.size());
    EXPECT_EQ(batch.behind({0, 1, 0}).byte_offset, text.size());
  }
}

// ---- Whole files

std::string compressed(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string read_file(const std::string& path, const ReadOptions& options) {
  Log log;
  auto reader = TraceReader::open(path, options);
  EXPECT_TRUE(reader.ok());
  if (!reader) return {};
  const ReadReport report = reader->read_all(log);
  for (const Error& error : report.errors) log.log(error);
  log.text += std::to_string(report.records) + " " + std::to_string(report.bad_lines) + " " +
              std::to_string(report.raw_bytes) + (report.truncated ? " truncated" : "") +
              (report.is_trace ? " trace" : "");
  return log.text;
}

class ParallelReading : public TempFolder {
 protected:
  void expect_same(const std::string& path) {
    const std::string serial = read_file(path, {.threads = 1});
    for (const std::size_t chunk : {1, 300, 5000, 1 << 20}) {
      for (const unsigned threads : {2u, 5u}) {
        EXPECT_EQ(read_file(path, {.threads = threads, .chunk_bytes = chunk}), serial)
            << path << " by " << threads << " threads, " << chunk << " bytes each";
      }
    }
  }
};

TEST_F(ParallelReading, OfAllFixturesShowsTheSameAsSerial) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TRACE10_FIXTURES)) {
    if (entry.path().extension() != ".jsonl") continue;
    expect_same(entry.path().string());
    ++files;
  }
  EXPECT_GT(files, 100);
}

TEST_F(ParallelReading, OfDamagedFilesShowsTheSameAsSerial) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    RandomEvents random(seed);
    std::string text = meta_line("run") + random_lines(random, 400, true);
    if (seed % 3 == 0) text.resize(text.size() - random.below(200));  // it ends inside a line
    write("plain", text);
    expect_same(path("plain"));
    std::string stored = compressed(text);
    write("whole", stored);
    expect_same(path("whole"));
    write("cut", stored.substr(0, stored.size() - 1 - random.below(stored.size() / 2)));
    expect_same(path("cut"));
    stored[stored.size() / 2] = static_cast<char>(stored[stored.size() / 2] ^ 0x55);
    write("damaged", stored);
    expect_same(path("damaged"));
  }
}

TEST_F(ParallelReading, AVisitorThatThrowsEndsTheThreads) {
  std::string text = meta_line("run");
  for (int i = 0; i < 20000; ++i) text += span_end_line(static_cast<std::uint64_t>(i));
  write("t", text);
  struct Thrower : EventVisitor {
    int left = 1000;
    void on_span_end(const SpanEnd&, const Place&) override {
      if (--left == 0) throw 5;
    }
  } thrower;
  auto reader = TraceReader::open(path("t"), {.threads = 3, .chunk_bytes = 1000});
  EXPECT_THROW(reader->read_all(thrower), int);
}

}  // namespace
}  // namespace tensortap::format
