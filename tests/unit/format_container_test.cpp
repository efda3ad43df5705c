// The trace file: what is appended is read back, by us and by the zstd program, and a crash costs at most its
// last frame.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "format/container.h"
#include "format/trace_reader.h"
#include "format_files.h"

namespace tensortap::format {
namespace {

constexpr std::size_t kMetaFrameBytes = 12 + 64 * 1024;

// The file's text as the zstd program of the distribution sees it.
std::string unzstd(const std::string& path) {
  const std::string command = "zstd -d -q -c '" + path + "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string out;
  char buffer[65536];
  while (const std::size_t got = ::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
  EXPECT_EQ(::pclose(pipe), 0);
  return out;
}

std::string without_padding(std::string text) {
  const std::size_t lf = text.find('\n');
  const std::size_t last = text.find_last_not_of(' ', lf - 1);
  return text.erase(last + 1, lf - last - 1);
}

struct State {
  std::uint64_t end = 0;  // of the file
  std::string text;
  std::vector<Cursor> cursors;
  std::uint64_t lines = 0;
};

class ContainerTest : public TempFolder {
 protected:
  std::string file() const { return path("trace.jsonl.zst"); }

  // A file of several frames, and its state after each.
  std::vector<State> make(int frames, std::size_t lines_per_frame = 6) {
    std::vector<State> states;
    auto writer = TraceFileWriter::create(file(), meta_line("run"));
    EXPECT_TRUE(writer.ok());
    State state{writer->stored_bytes(), meta_line("run"), {}, 1};
    states.push_back(state);
    for (int frame = 0; frame < frames; ++frame) {
      std::string lines;
      if (frame % 4 != 3) {  // every fourth has cursors only
        for (std::size_t i = 0; i < lines_per_frame; ++i) lines += span_end_line(state.lines++);
      }
      std::vector<Cursor> cursors{
          {0, static_cast<std::uint64_t>(frame)},
          {static_cast<std::uint32_t>(frame % 3 + 1), 100u + static_cast<std::uint64_t>(frame)}};
      EXPECT_TRUE(writer->append(lines, cursors).ok());
      for (const Cursor& cursor : cursors) {
        bool known = false;
        for (Cursor& mine : state.cursors) {
          if (mine.ring == cursor.ring) {
            mine.position = cursor.position;
            known = true;
          }
        }
        if (!known) state.cursors.push_back(cursor);
      }
      state.text += lines;
      state.end = writer->stored_bytes();
      states.push_back(state);
    }
    EXPECT_EQ(std::filesystem::file_size(file()), state.end);
    return states;
  }

  // Opens the file, expects what `state` has, appends a line, and reads all of it back.
  void expect_reopens_as(const State& state, std::uint64_t file_bytes, const std::string& what) {
    auto opened = TraceFileWriter::open_for_append(file());
    ASSERT_TRUE(opened.ok()) << what << ": " << opened.error().to_string();
    auto& [writer, kept] = *opened;
    ASSERT_EQ(kept.cursors, state.cursors) << what;
    ASSERT_EQ(kept.lines, state.lines) << what;
    ASSERT_EQ(kept.cut_bytes, file_bytes - state.end) << what;
    ASSERT_EQ(kept.meta_line, meta_line("run")) << what;
    ASSERT_FALSE(kept.has_terminal) << what;
    ASSERT_EQ(writer.stored_bytes(), state.end) << what;
    ASSERT_TRUE(writer.append(terminal_line(), {}).ok()) << what;

    auto reader = TraceReader::open(file());
    std::string text;
    std::string_view line;
    Place place;
    while (reader->next_line(line, place)) (text += line) += '\n';
    ASSERT_FALSE(reader->stream_error()) << what;
    ASSERT_EQ(without_padding(text), state.text + terminal_line()) << what;
    ASSERT_EQ(writer.raw_bytes(), text.size()) << what;
  }
};

TEST_F(ContainerTest, TheZstdProgramReadsTheFileAsOneText) {
  const std::vector<State> states = make(7);
  const std::string text = unzstd(file());
  EXPECT_EQ(text.find('\n'), 65535u) << "the meta line is padded to 64 KiB";
  EXPECT_EQ(without_padding(text), states.back().text);
}

TEST_F(ContainerTest, AFileOfOnlyItsMetaLineIsAWholeFile) {
  const std::vector<State> states = make(0);
  EXPECT_EQ(states[0].end, kMetaFrameBytes);
  EXPECT_EQ(without_padding(unzstd(file())), meta_line("run"));
  expect_reopens_as(states[0], states[0].end, "meta only");
}

TEST_F(ContainerTest, AFileThatExistsIsNotOverwritten) {
  write("trace.jsonl.zst", "precious");
  const auto writer = TraceFileWriter::create(file(), meta_line("run"));
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().code, ErrorCode::kIo);
  EXPECT_EQ(read("trace.jsonl.zst"), "precious");
}

TEST_F(ContainerTest, WhatIsNoWholeLineIsRefused) {
  EXPECT_FALSE(TraceFileWriter::create(path("a"), "{}").ok());
  EXPECT_FALSE(TraceFileWriter::create(path("a"), "{}\n{}\n").ok());
  EXPECT_FALSE(TraceFileWriter::create(path("a"), "").ok());
  auto writer = TraceFileWriter::create(path("a"), "{}\n");
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE(writer->append("{}", {}).ok());
  EXPECT_FALSE(writer->rewrite_meta("{}").ok());
}

TEST_F(ContainerTest, AFileCutAtAnyByteKeepsItsWholeFrames) {
  const std::vector<State> states = make(9);
  const std::string whole = read("trace.jsonl.zst");
  for (std::uint64_t cut = kMetaFrameBytes; cut <= whole.size(); ++cut) {
    write("trace.jsonl.zst", std::string_view(whole).substr(0, cut));
    std::size_t last = 0;
    while (last + 1 < states.size() && states[last + 1].end <= cut) ++last;
    expect_reopens_as(states[last], cut, "cut at " + std::to_string(cut));
    if (HasFatalFailure()) return;
  }
}

TEST_F(ContainerTest, AFileThatEndsInsideItsMetaFrameIsTruncated) {
  make(1);
  const std::string whole = read("trace.jsonl.zst");
  for (std::uint64_t cut : {0, 1, 8, 9, 12, 500, 65547}) {
    write("trace.jsonl.zst", std::string_view(whole).substr(0, cut));
    const auto opened = TraceFileWriter::open_for_append(file());
    ASSERT_FALSE(opened.ok()) << cut;
    EXPECT_EQ(opened.error().code, ErrorCode::kTruncated) << cut;
    EXPECT_EQ(std::filesystem::file_size(file()), cut) << "nothing is cut off a file that is refused";
  }
}

// A few bits of zstd's own framing mean nothing to its content: flipping one costs nothing.
TEST_F(ContainerTest, AFlippedBitInTheLastFrameCostsAtMostThatFrame) {
  const std::vector<State> states = make(6);
  const std::string whole = read("trace.jsonl.zst");
  const State& before = states[states.size() - 2];
  int harmless = 0, flips = 0;
  for (std::uint64_t bit = before.end * 8; bit < whole.size() * 8; bit += 3, ++flips) {  // every byte is met
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    write("trace.jsonl.zst", damaged);
    const bool kept = TraceFileWriter::open_for_append(file())->second.cut_bytes == 0;
    if (kept) ++harmless;
    expect_reopens_as(kept ? states.back() : before, kept ? whole.size() : before.end,
                      "bit " + std::to_string(bit) + " flipped");
    if (HasFatalFailure()) return;
  }
  EXPECT_LE(harmless, flips / 50);
}

TEST_F(ContainerTest, RandomBytesBehindTheLastFrameAreCutOff) {
  const std::vector<State> states = make(5);
  const std::string whole = read("trace.jsonl.zst");
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    // Sometimes the beginning of a real frame, followed by anything.
    std::string tail =
        whole.substr(states[4].end, random() % (whole.size() - states[4].end) * (random() % 2));
    for (std::uint64_t n = random() % 200 + 1; n > 0; --n)
      tail += static_cast<char>(i % 5 == 0 ? 0 : random());
    write("trace.jsonl.zst", whole + tail);
    expect_reopens_as(states.back(), whole.size() + tail.size(), "tail " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

TEST_F(ContainerTest, ATerminalIsFoundBehindFramesThatHaveOnlyCursors) {
  {
    auto writer = TraceFileWriter::create(file(), meta_line("run"));
    ASSERT_TRUE(writer->append(span_end_line(1) + terminal_line(), {{1, 10}}).ok());
    ASSERT_TRUE(writer->append("", {{1, 20}, {4, 1}}).ok());
  }
  const auto opened = TraceFileWriter::open_for_append(file());
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->second.has_terminal);
  EXPECT_EQ(opened->second.lines, 3u);
  EXPECT_EQ(opened->second.cursors, (std::vector<Cursor>{{1, 20}, {4, 1}}));
}

TEST_F(ContainerTest, TheMetaLineIsRewrittenInPlace) {
  const std::vector<State> states = make(3);
  auto opened = TraceFileWriter::open_for_append(file());
  for (const std::string& id :
       {std::string("a much longer name of the run"), std::string("r"), std::string(60000, 'x')}) {
    ASSERT_TRUE(opened->first.rewrite_meta(meta_line(id)).ok());
    EXPECT_EQ(std::filesystem::file_size(file()), states.back().end);
    EXPECT_EQ(without_padding(unzstd(file())),
              meta_line(id) + states.back().text.substr(meta_line("run").size()));
  }
  ASSERT_TRUE(opened->first.append(span_end_line(77), {}).ok());
  const auto again = TraceFileWriter::open_for_append(file());
  EXPECT_EQ(again->second.meta_line, meta_line(std::string(60000, 'x')));
}

TEST_F(ContainerTest, NumbersOfRecordsAreKeptBesideThePositionsAlsoBeyond32Bits) {
  auto writer = TraceFileWriter::create(file(), meta_line("run"));
  ASSERT_TRUE(writer.ok());
  const std::uint64_t many = (std::uint64_t{1} << 32) - 2;
  ASSERT_TRUE(writer->append(span_end_line(1), {{0, 100, 7}, {3, 5000, many}}).ok());
  ASSERT_TRUE(writer->append(span_end_line(2), {{3, 6000, many + 9}}).ok());
  ASSERT_TRUE(writer->append(span_end_line(3), {{0, 90, 6}}).ok());  // an older one does not count
  const auto again = TraceFileWriter::open_for_append(file());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->second.cursors, (std::vector<Cursor>{{0, 100, 7}, {3, 6000, many + 9}}));
}

TEST_F(ContainerTest, AMetaLineThatOutgrewItsFrameMovesTheFrames) {
  const std::vector<State> states = make(5);
  const std::string tail = states.back().text.substr(meta_line("run").size());
  auto opened = TraceFileWriter::open_for_append(file());
  auto& writer = opened->first;
  const std::string longer = meta_line(std::string(200000, 'z'));
  ASSERT_TRUE(writer.rewrite_meta(longer).ok());
  EXPECT_FALSE(std::filesystem::exists(file() + ".rewrite"));
  EXPECT_EQ(without_padding(unzstd(file())), longer + tail);
  EXPECT_EQ(writer.stored_bytes(), std::filesystem::file_size(file()));

  ASSERT_TRUE(writer.append(span_end_line(77), {{9, 9}}).ok());
  ASSERT_TRUE(writer.rewrite_meta(meta_line("short again")).ok());
  EXPECT_EQ(without_padding(unzstd(file())), meta_line("short again") + tail + span_end_line(77));
  const auto again = TraceFileWriter::open_for_append(file());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->second.cursors.back(), (Cursor{9, 9}));
  EXPECT_EQ(again->second.cut_bytes, 0u);
}

TEST_F(ContainerTest, AFileMayBeginWithALongMetaLine) {
  const std::string line = meta_line(std::string(70000, 'm'));
  { ASSERT_TRUE(TraceFileWriter::create(file(), line).ok()); }
  EXPECT_EQ(without_padding(unzstd(file())), line);
  EXPECT_EQ(TraceFileWriter::open_for_append(file())->second.meta_line, line);
}

TEST_F(ContainerTest, WhatIsNoTraceFileIsRefusedAndLeftAlone) {
  write("trace.jsonl.zst", std::string(100000, 'x'));
  const auto opened = TraceFileWriter::open_for_append(file());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kMalformed);
  EXPECT_EQ(read("trace.jsonl.zst"), std::string(100000, 'x'));
  EXPECT_EQ(TraceFileWriter::open_for_append(path("none")).error().code, ErrorCode::kNotFound);
}

TEST_F(ContainerTest, AnAppendThatDoesNotFitLeavesTheFileAsItWas) {
  const std::vector<State> states = make(2);
  auto opened = TraceFileWriter::open_for_append(file());
  std::mt19937_64 random(5);
  std::string lines;
  while (lines.size() < 100000) lines += std::to_string(random()) + "\n";

  // A limit on the file's size stands for a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = states.back().end + 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = opened->first.append(lines, {});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(std::filesystem::file_size(file()), states.back().end);
  EXPECT_TRUE(opened->first.append(lines, {}).ok()) << "and it goes on when there is room again";
  EXPECT_EQ(without_padding(unzstd(file())), states.back().text + lines);
}

}  // namespace
}  // namespace tensortap::format
