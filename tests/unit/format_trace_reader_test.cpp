#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "format/container.h"
#include "format/line_writer.h"
#include "format/trace_reader.h"
#include "format_files.h"

namespace tensortap::format {
namespace {

std::string compressed(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::vector<std::string> lines_of(TraceReader& reader) {
  std::vector<std::string> lines;
  std::string_view line;
  Place place;
  while (reader.next_line(line, place)) lines.emplace_back(line);
  return lines;
}

using TraceReaderTest = TempFolder;

TEST_F(TraceReaderTest, TellsPlacesByLineByRecordAndByByte) {
  write("t.jsonl", "a\n\n \nbc\nd");
  auto reader = TraceReader::open(path("t.jsonl"));
  ASSERT_TRUE(reader.ok());
  std::string_view line;
  Place place;
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t>> seen;
  while (reader->next_line(line, place)) seen.emplace_back(line, place.index, place.line, place.byte_offset);
  EXPECT_EQ(seen,
            (decltype(seen){{"a", 0, 1, 0}, {"", 1, 2, 2}, {" ", 1, 3, 3}, {"bc", 1, 4, 5}, {"d", 2, 5, 8}}));
}

TEST_F(TraceReaderTest, ReadsTheSameFromPlainTextAndFromAnyZstdStream) {
  std::string text;
  for (int i = 0; i < 20000; ++i)
    text += "line " + std::to_string(i * 7919) + std::string(i % 300, 'x') + "\n";
  text += std::string(1'500'000, 'y') + "\nlast\n";
  const std::string half = text.substr(0, 777'777);
  const std::string skippable("\x5A\x2A\x4D\x18\x03\0\0\0abc", 11);
  write("plain", text);
  write("one", compressed(text));
  write("several", skippable + compressed(half) + skippable + compressed("") +
                       compressed(text.substr(half.size())) + skippable);
  std::vector<std::vector<std::string>> all;
  for (const char* name : {"plain", "one", "several"}) {
    auto reader = TraceReader::open(path(name));
    ASSERT_TRUE(reader.ok());
    all.push_back(lines_of(*reader));
    EXPECT_FALSE(reader->truncated()) << name;
    EXPECT_FALSE(reader->stream_error()) << name;
  }
  EXPECT_EQ(all[0].size(), 20002u);
  EXPECT_TRUE(all[0] == all[1]);
  EXPECT_TRUE(all[0] == all[2]);
}

TEST_F(TraceReaderTest, ReadAllGoesOnBehindBadLinesAndCountsThem) {
  std::string text = meta_line("run") + "nonsense\n\n" + span_end_line(1);
  for (int i = 0; i < 30; ++i) text += "{\"kind\":\"op\"}\n";
  text += span_end_line(2);
  write("t", text);
  auto reader = TraceReader::open(path("t"));
  ASSERT_TRUE(reader.ok());
  EventVisitor nobody;
  const ReadReport report = reader->read_all(nobody);
  EXPECT_EQ(report.records, 3u);
  EXPECT_EQ(report.bad_lines, 31u);
  EXPECT_EQ(report.raw_bytes, text.size());
  EXPECT_EQ(report.errors.size(), 20u);
  EXPECT_EQ(report.errors[0].to_string(), path("t") + ":2 (byte " + std::to_string(meta_line("run").size()) +
                                              "): the line is not a JSON object");
  EXPECT_TRUE(report.is_trace);
  EXPECT_FALSE(report.truncated);
}

TEST_F(TraceReaderTest, AWholeLastLineWithoutLfIsRefusedAsWhatItIs) {
  write("whole", meta_line("run") + R"({"kind":"nope"})");
  EventVisitor nobody;
  const ReadReport report = TraceReader::open(path("whole"))->read_all(nobody);
  EXPECT_FALSE(report.truncated);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, ErrorCode::kRejected);
  EXPECT_EQ(report.errors[0].line, 2u);
}

TEST_F(TraceReaderTest, ALastLineWithoutLfIsTruncatedOnlyWhenItIsBad) {
  EventVisitor nobody;
  write("whole", meta_line("run") + span_end_line(1).substr(0, span_end_line(1).size() - 1));
  ReadReport report = TraceReader::open(path("whole"))->read_all(nobody);
  EXPECT_EQ(report.records, 2u);
  EXPECT_FALSE(report.truncated);

  write("cut", meta_line("run") + span_end_line(1).substr(0, 20));
  report = TraceReader::open(path("cut"))->read_all(nobody);
  EXPECT_EQ(report.records, 1u);
  EXPECT_TRUE(report.truncated);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, ErrorCode::kTruncated);
  EXPECT_EQ(report.errors[0].line, 2u);
}

TEST_F(TraceReaderTest, OfACutZstdFileWhatCameBeforeIsUsed) {
  std::string text = meta_line("run");
  for (int i = 0; i < 50000; ++i) text += span_end_line(i);
  const std::string stored = compressed(text);
  write("cut", stored.substr(0, stored.size() - 10));
  EventVisitor nobody;
  const ReadReport report = TraceReader::open(path("cut"))->read_all(nobody);
  EXPECT_TRUE(report.truncated);
  EXPECT_TRUE(report.is_trace);
  EXPECT_GT(report.records, 10000u);
  EXPECT_LE(report.records, 50001u);
}

TEST_F(TraceReaderTest, DamagedZstdDataEndsTheReadingWithAnError) {
  std::string stored = compressed(meta_line("run")) + "garbage behind the frame";
  write("bad", stored);
  auto reader = TraceReader::open(path("bad"));
  EventVisitor nobody;
  const ReadReport report = reader->read_all(nobody);
  EXPECT_EQ(report.records, 1u);
  ASSERT_TRUE(reader->stream_error());
  EXPECT_EQ(reader->stream_error()->code, ErrorCode::kMalformed);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].file, path("bad"));
}

TEST_F(TraceReaderTest, WhatIsNoTraceIsToldToBeNone) {
  EventVisitor nobody;
  write("text", "hello\nworld\n");
  EXPECT_FALSE(TraceReader::open(path("text"))->read_all(nobody).is_trace);
  write("empty", "");
  EXPECT_FALSE(TraceReader::open(path("empty"))->read_all(nobody).is_trace);
  write("later", span_end_line(1) + meta_line("run"));
  EXPECT_FALSE(TraceReader::open(path("later"))->read_all(nobody).is_trace);
}

TEST_F(TraceReaderTest, AMissingFileAndAFolderAreErrorsThatNameThem) {
  const auto missing = TraceReader::open(path("none"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(path("none")), std::string::npos);
  const auto folder = TraceReader::open(path(""));
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
}

TEST_F(TraceReaderTest, ReadsAPipeThatGivesItsFirstBytesOneByOne) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  ::close(ends[0]);
  const std::string stored = compressed("a\nb\n");
  ASSERT_EQ(::write(ends[1], stored.data(), stored.size()), static_cast<ssize_t>(stored.size()));
  ::close(ends[1]);
  auto reader = TraceReader::open("-");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(lines_of(*reader), (std::vector<std::string>{"a", "b"}));
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
}

}  // namespace
}  // namespace tensortap::format
