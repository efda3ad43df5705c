// Parts of a trace: the rules of cut/trace_cut.h, against a model of them on whole records; the same part
// from every way of storing the trace; and how much of a trace file is read for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "analyzers/cut/trace_cut.h"
#include "analyzers/cut/trace_input.h"
#include "format/container.h"
#include "format/line_reader.h"
#include "format/trace_index.h"
#include "support.h"

namespace tensortap::analyzers {
namespace {

using format::RecordKind;

struct StringSink final : LineSink {
  std::string text;
  format::Status write(std::string_view lines) override {
    text += lines;
    return {};
  }
  format::Status close() override { return {}; }
};

// ---- the model: what the full reader says of a line, and the rules in the plainest way

struct Line {
  std::string text;
  std::optional<RecordKind> kind;
  std::optional<std::uint64_t> time;
  std::string id, name;
  std::uint64_t duration = 0;
  bool function = false;
};

struct Facts final : format::EventVisitor {
  Line line;
  void is(RecordKind kind) { line.kind = kind; }
  void at(RecordKind kind, std::uint64_t time) {
    line.kind = kind;
    line.time = time;
  }
  void on_meta(const format::Meta&, const format::Place&) override { is(RecordKind::kMeta); }
  void on_span_start(const format::SpanStart& e, const format::Place&) override {
    at(RecordKind::kSpanStart, e.start_ns);
    line.id = e.id;
    line.name = e.name;
    line.function = e.span_kind == format::SpanKind::kFunction;
  }
  void on_span_end(const format::SpanEnd& e, const format::Place&) override {
    is(RecordKind::kSpanEnd);
    line.id = e.id;
    line.duration = e.duration_ns;
  }
  void on_op(const format::Op& e, const format::Place&) override { at(RecordKind::kOp, e.timestamp_ns); }
  void on_tensor(const format::Tensor&, const format::Place&) override { is(RecordKind::kTensor); }
  void on_memory(const format::Memory& e, const format::Place&) override {
    at(RecordKind::kMemory, e.timestamp_ns);
  }
  void on_device_interval(const format::DeviceInterval& e, const format::Place&) override {
    is(RecordKind::kDeviceInterval);
    line.id = e.span_id;
  }
  void on_terminal(const format::Terminal& e, const format::Place&) override {
    at(RecordKind::kTerminal, e.timestamp_ns);
  }
};

std::string model(const std::string& trace, const CutRequest& request) {
  std::vector<Line> lines;
  std::istringstream in(trace);
  for (std::string text; std::getline(in, text);) {
    Facts facts;
    (void)format::LineReader().read(text, {}, facts);
    facts.line.text = text;
    lines.push_back(facts.line);
  }
  const auto number = [](const Line& line) {
    return line.function && line.name.rfind("step-", 0) == 0 ? std::stoull(line.name.substr(5)) : ~0ull;
  };
  std::map<std::string, NumberRange> steps;
  for (const Line& line : lines) {
    if (request.steps && line.kind == RecordKind::kSpanStart && number(line) >= request.steps->first &&
        number(line) <= std::min<std::uint64_t>(request.steps->last, 1000)) {
      steps[line.id] = {*line.time};
    } else if (line.kind == RecordKind::kSpanEnd && steps.count(line.id) != 0) {
      steps[line.id].last = steps[line.id].first + line.duration;
    }
  }
  const auto in_range = [&](std::uint64_t t) {
    if (request.times && (t < request.times->first || t > request.times->last)) return false;
    return !request.steps || std::any_of(steps.begin(), steps.end(), [&](const auto& step) {
      return t >= step.second.first && t <= step.second.last;
    });
  };
  std::string out;
  bool inside = false;
  std::set<std::string> begun;
  for (const Line& line : lines) {
    if (line.kind == RecordKind::kMeta) out += line.text + "\n";
    if (!line.kind || line.kind == RecordKind::kMeta) continue;
    bool kept = true;
    if (request.steps || request.times) {
      if (line.time) inside = in_range(*line.time);
      if (inside && line.kind == RecordKind::kSpanStart) begun.insert(line.id);
      kept = inside;
      if (line.kind == RecordKind::kDeviceInterval || line.kind == RecordKind::kSpanEnd)
        kept = inside && begun.count(line.id) != 0;
      if (line.kind == RecordKind::kSpanEnd && steps.count(line.id) != 0) kept = true;
    }
    const auto& kinds = request.kinds;
    if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), *line.kind) == kinds.end()) kept = false;
    if (kept) out += line.text + "\n";
  }
  return out;
}

// ---- traces

// Steps 0 to 9 (the last one never ends), another thread's work out of order, lines without times anywhere.
std::string some_trace(std::mt19937& random) {
  testing::Trace trace;
  const auto below = [&](std::uint32_t n) { return random() % n; };
  std::uint64_t now = 10;
  std::string late;  // a span_end that comes behind the next step's beginning
  for (int step = 0; step < 10; ++step) {
    const std::string id = "s1." + std::to_string(step), start = "step-00000000000" + std::to_string(step);
    const std::uint64_t begin = now;
    trace.span(id, "w", start, now);
    if (!late.empty()) trace.line(std::exchange(late, ""));
    for (std::uint32_t i = below(30); i > 0; --i) {
      now += below(4);
      switch (below(8)) {
        case 0:
          trace.line(R"({"kind":"tensor","span_id":")" + id +
                     R"(","tensor_id":"t","shape":[],"dtype":"f32","device":"cpu"})");
          break;
        case 1:
          trace.line(
              R"({"kind":"device_interval","span_id":")" + (below(2) ? id : "s1.1") +
              R"(","device":"cuda:0","stream_id":"7","clock_id":"c","backend":"cupti","start_ns":5,"duration_ns":1})");
          break;
        case 2:
          trace.op("w", "another thread's", now - std::min<std::uint64_t>(now, below(60)), 1);
          break;
        case 3:
          trace.span("x" + std::to_string(step) + "." + std::to_string(i), id, "step-000000000001", now,
                     "module");
          trace.end("x" + std::to_string(step) + "." + std::to_string(i), 1);
          break;
        case 4:
          trace.line(below(2) ? "" : R"({"kind":"marker"})");
          break;
        default:
          trace.op(id, "aten::add", now, 2);
      }
    }
    now += below(3);
    if (step == 9) break;
    const std::string end =
        R"({"kind":"span_end","id":")" + id + R"(","duration_ns":)" + std::to_string(now - begin) + "}";
    if (below(3) == 0) {
      late = end;
    } else {
      trace.line(end);
    }
    now += below(3);
  }
  trace.line(R"({"kind":"terminal","outcome":"failed","reason":"x","timestamp_ns":)" + std::to_string(now) +
             "}");
  return trace.text();
}

std::vector<CutRequest> requests() {
  std::vector<CutRequest> all;
  const std::vector<std::optional<NumberRange>> steps{std::nullopt, NumberRange{3, 5}, NumberRange{0, 0},
                                                      NumberRange{8}, NumberRange{20, 30}};
  const std::vector<std::optional<NumberRange>> times{std::nullopt, NumberRange{60, 140}, NumberRange{100},
                                                      NumberRange{0, 0}};
  const std::vector<std::vector<RecordKind>> kinds{
      {}, {RecordKind::kOp}, {RecordKind::kTensor, RecordKind::kSpanEnd}, {RecordKind::kDeviceInterval}};
  for (const auto& s : steps)
    for (const auto& t : times)
      for (const auto& k : kinds)
        if (s || t || !k.empty()) all.push_back({s, t, k});
  return all;
}

class CutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tensortap-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string read(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path(name), std::ios::binary).rdbuf();
    return out.str();
  }
  // Frames of one to `most` lines.
  void store(const std::string& name, std::string_view trace, std::mt19937& random, std::uint32_t most,
             bool finished) const {
    const std::size_t meta = trace.find('\n') + 1;
    auto writer = format::TraceFileWriter::create(path(name), trace.substr(0, meta));
    ASSERT_TRUE(writer.ok());
    trace.remove_prefix(meta);
    while (!trace.empty()) {
      std::size_t end = 0;
      for (std::uint32_t lines = 1 + random() % most; lines > 0 && end < trace.size(); --lines)
        end = trace.find('\n', end) + 1;
      ASSERT_TRUE(writer->append(trace.substr(0, end), {}).ok());
      trace.remove_prefix(end);
    }
    if (finished) {
      ASSERT_TRUE(writer->finish().ok());
    }
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      all.insert(entry.path().filename().string());
    return all;
  }
  struct Part {
    std::string text;
    CutReport report;
  };
  Part cut(const std::string& name, const CutRequest& request) const {
    StringSink sink;
    auto report = cut_trace(path(name), request, sink);
    EXPECT_TRUE(report.ok());
    return {sink.text, *report};
  }

 private:
  std::string folder_;
};

std::string shown(const CutRequest& request) {
  std::string out;
  if (request.steps)
    out += " steps " + std::to_string(request.steps->first) + ":" + std::to_string(request.steps->last);
  if (request.times)
    out += " times " + std::to_string(request.times->first) + ":" + std::to_string(request.times->last);
  for (const RecordKind kind : request.kinds) out += " " + std::string(format::record_kind_name(kind));
  return out;
}

TEST_F(CutTest, EveryWayOfStoringGivesThePartThatTheRulesSay) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    const std::string trace = some_trace(random);
    write("plain", trace);
    std::filesystem::remove(path("finished.zst"));
    std::filesystem::remove(path("open.zst"));
    store("finished.zst", trace, random, round % 2 == 0 ? 3 : 40, true);
    store("open.zst", trace, random, 10, false);
    for (const CutRequest& request : requests()) {
      const std::string wanted = model(trace, request);
      for (const char* name : {"plain", "finished.zst", "open.zst"}) {
        const Part part = cut(name, request);
        ASSERT_EQ(part.text, wanted) << name << shown(request);
        ASSERT_TRUE(part.report.is_trace && part.report.errors.empty() && !part.report.truncated);
      }
    }
    for (const char* name : {"plain", "finished.zst", "open.zst"})
      ASSERT_EQ(cut(name, {}).text, trace) << name;
  }
}

// The frames outside a part are not read: here each of them is damaged, and the part comes all the same.
TEST_F(CutTest, DamageOutsideThePartIsNotEvenSeen) {
  std::string trace = testing::Trace().text();
  trace = trace.substr(0, trace.find('\n') + 1);
  const std::string meta = trace;
  testing::Trace steps;
  for (int step = 0; step < 10; ++step) {
    const std::string id = "s" + std::to_string(step);
    steps.span(id, "w", "step-00000000000" + std::to_string(step), 100 * step);
    for (int i = 0; i < 50; ++i) steps.op(id, "o", 100 * step + i, 1);
    steps.end(id, 60);
  }
  const std::string body = steps.text().substr(steps.text().find('\n') + 1);
  std::mt19937 random(1);
  for (const bool finished : {true, false}) {
    std::filesystem::remove(path("t.zst"));
    store("t.zst", meta + body, random, 20, finished);
    CutRequest request;
    request.steps = NumberRange{4, 5};
    CutRequest by_time;
    by_time.times = NumberRange{400, 560};
    const Part whole = cut("t.zst", request);
    ASSERT_EQ(whole.text, model(meta + body, request));
    EXPECT_EQ(whole.text, cut("t.zst", by_time).text);

    std::string bytes = read("t.zst");
    const auto index = format::TraceIndex::open(path("t.zst"));
    std::size_t damaged = 0;
    for (const format::FrameEntry& frame : index->frames()) {
      if (frame.range->last_ns >= 400 && frame.range->first_ns <= 600) continue;
      bytes[frame.data() + 6] = static_cast<char>(bytes[frame.data() + 6] ^ 0x55);
      ++damaged;
    }
    EXPECT_GT(damaged, index->frames().size() / 2);
    write("t.zst", bytes);
    for (const CutRequest& part_of : {request, by_time}) {
      const Part part = cut("t.zst", part_of);
      EXPECT_EQ(part.text, whole.text);
      EXPECT_TRUE(part.report.errors.empty());
      EXPECT_LE(part.report.frames_read, index->frames().size() - damaged + 1);
    }
    // And whoever asks for all of it is told, with what could be read.
    const Part all = cut("t.zst", {});
    EXPECT_EQ(all.report.errors.size(), damaged);
    EXPECT_NE(all.text.find("\"timestamp_ns\":430,"), std::string::npos);
  }
}

TEST_F(CutTest, AStepInADamagedFrameIsReportedNotForgotten) {
  std::mt19937 random(3);
  const std::string trace = some_trace(random);
  store("t.zst", trace, random, 6, true);
  std::string bytes = read("t.zst");
  const auto index = format::TraceIndex::open(path("t.zst"));
  for (const format::FrameEntry& frame : index->frames()) {
    if (frame.range->first_step <= 4 && frame.range->last_step >= 4) bytes[frame.data() + 6] ^= 0x55;
  }
  write("t.zst", bytes);
  CutRequest request;
  request.steps = NumberRange{4, 4};
  const Part part = cut("t.zst", request);
  ASSERT_EQ(part.report.errors.size(), 1u);
  EXPECT_EQ(part.report.errors[0].file, path("t.zst"));
}

TEST_F(CutTest, AnUnfinishedLineIsLeftOutOfAPartAndCopiedOtherwise) {
  std::mt19937 random(4);
  const std::string trace = some_trace(random);
  const std::string torn = trace.substr(0, trace.size() - 9);
  const std::string unended = trace.substr(0, trace.size() - 1);
  CutRequest all_kinds;
  all_kinds.kinds = {RecordKind::kOp, RecordKind::kTerminal};
  write("torn", torn);
  write("unended", unended);
  EXPECT_EQ(cut("torn", {}).text, torn);
  EXPECT_TRUE(cut("torn", {}).report.truncated);
  EXPECT_EQ(cut("torn", all_kinds).text, model(trace.substr(0, torn.rfind('\n') + 1), all_kinds));
  EXPECT_TRUE(cut("torn", all_kinds).report.truncated);
  EXPECT_EQ(cut("unended", {}).text, unended);
  EXPECT_FALSE(cut("unended", {}).report.truncated);
  EXPECT_EQ(cut("unended", all_kinds).text, model(trace, all_kinds));
}

// Behind the last whole frame: a torn one, or what somebody appended.
TEST_F(CutTest, WhatStandsBehindTheLastFrameIsReadAsAStream) {
  std::mt19937 random(5);
  const std::string trace = some_trace(random);
  const std::size_t half = trace.find('\n', trace.size() / 2) + 1;
  store("first.zst", trace.substr(0, half), random, 10, true);
  store("second.zst", trace.substr(0, trace.find('\n') + 1) + trace.substr(half), random, 10, true);
  const auto second = format::TraceIndex::open(path("second.zst"));
  write("both.zst", read("first.zst") + read("second.zst").substr(second->frames()[0].offset));
  for (const CutRequest& request : requests())
    ASSERT_EQ(cut("both.zst", request).text, model(trace, request));

  const std::string bytes = read("first.zst");
  const auto first = format::TraceIndex::open(path("first.zst"));
  write("cut.zst", std::string_view(bytes).substr(0, first->frames().back().end() - 3));
  const Part part = cut("cut.zst", {});
  EXPECT_TRUE(part.report.truncated);
  EXPECT_EQ(part.text, trace.substr(0, part.text.size()));
  EXPECT_GE(part.text.size(), first->frames().back().raw_offset - 65536);
}

TEST_F(CutTest, WhatIsNoTraceIsToldToBeNone) {
  write("text", "hello\nworld\n");
  write("empty", "");
  write("later", "{\"kind\":\"terminal\"}\n" + testing::Trace().text());
  for (const char* name : {"text", "empty", "later"}) {
    const Part part = cut(name, {});
    EXPECT_FALSE(part.report.is_trace) << name;
    EXPECT_EQ(part.text, "") << name;
  }
  StringSink sink;
  EXPECT_FALSE(cut_trace(path("none"), {}, sink).ok());
}

TEST_F(CutTest, ATraceFileHoldsWhatWasWrittenToItAndItsTable) {
  std::mt19937 random(6);
  std::string trace = some_trace(random);
  while (trace.size() < 5'000'000) trace += some_trace(random).substr(2000);  // not valid, but lines
  auto sink = make_line_sink(path("out.zst"));
  write("plain", trace);
  ASSERT_TRUE(cut_trace(path("plain"), {}, **sink).ok());
  EXPECT_FALSE(std::filesystem::exists(path("out.zst"))) << "not before it is whole";
  ASSERT_TRUE((*sink)->close().ok());
  const auto index = format::TraceIndex::open(path("out.zst"));
  ASSERT_TRUE(index.ok());
  EXPECT_TRUE(index->has_seek_table());
  EXPECT_GE(index->frames().size(), 4u);
  EXPECT_TRUE(cut("out.zst", {}).text == trace);
  for (const char* name : {"dropped", "dropped.zst"}) {
    auto dropped = make_line_sink(path(name));
    ASSERT_TRUE((*dropped)->write(trace.substr(0, trace.find('\n') + 1)).ok());
  }
  EXPECT_EQ(names(), (std::set<std::string>{"out.zst", "plain"}));
}

// Two that write one name at once: the last to close has it, whole.
TEST_F(CutTest, OutputsOfOneNameDoNotMeet) {
  for (const char* name : {"out", "out.zst"}) {
    const std::string meta = testing::Trace().text().substr(0, testing::Trace().text().find('\n') + 1);
    auto first = make_line_sink(path(name)), second = make_line_sink(path(name));
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_TRUE((*first)->write(meta).ok() && (*second)->write(meta).ok());
    ASSERT_TRUE((*first)->write("{\"kind\":\"first\"}\n").ok());
    ASSERT_TRUE((*second)->write("{\"kind\":\"second\"}\n").ok());
    ASSERT_TRUE((*second)->close().ok());
    EXPECT_EQ(cut(name, {}).text, meta + "{\"kind\":\"second\"}\n");
    ASSERT_TRUE((*first)->close().ok());
    EXPECT_EQ(cut(name, {}).text, meta + "{\"kind\":\"first\"}\n");
  }
  EXPECT_EQ(names(), (std::set<std::string>{"out", "out.zst"}));
}

// Wherever they stand among blocks and frames, bad lines are left out, counted, and cost no good line.
TEST_F(CutTest, LinesThatAreNoRecordsAreLeftOutOfAPart) {
  std::mt19937 random(8);
  const std::string good =
      R"({"kind":"tensor","span_id":"w","tensor_id":"t","shape":[],"dtype":"f32","device":"cpu"})";
  const std::string bad[] = {R"({"kind":"tensor","span_id":"w"})", R"({"kind":"tensor","span_id":"w",)",
                             R"({"kind":"tensor"} {})", "{\"kind\":\"tensor\",\"span_id\":\"\xff\"}"};
  const std::string meta = testing::Trace().text().substr(0, testing::Trace().text().find('\n') + 1);
  CutRequest request;
  request.kinds = {RecordKind::kTensor};
  for (int round = 0; round < 30; ++round) {
    std::string trace = meta, wanted = meta;
    std::uint64_t left_out = 0;
    for (int i = 0; i < 300; ++i) {
      const bool is_bad = random() % (round < 15 ? 3 : 50) == 0;
      const std::string line = (is_bad ? bad[random() % std::size(bad)] : good) + '\n';
      trace += line;
      if (!is_bad) wanted += line;
      left_out += is_bad ? 1 : 0;
    }
    write("plain", trace);
    std::filesystem::remove(path("t.zst"));
    store("t.zst", trace, random, 40, true);
    const Part plain = cut("plain", request), stored = cut("t.zst", request);
    ASSERT_EQ(plain.text, wanted);
    ASSERT_EQ(stored.text, wanted);
    ASSERT_EQ(plain.report.bad_lines, left_out);
    // A frame of nothing but lines without a kind is not read.
    ASSERT_LE(stored.report.bad_lines, left_out);
    ASSERT_GT(stored.report.bad_lines, left_out * 3 / 4);
  }
}

TEST(CutArguments, TimesAreReadExactly) {
  EXPECT_EQ(parse_time("1.5s"), 1'500'000'000u);
  EXPECT_EQ(parse_time("200ms"), 200'000'000u);
  EXPECT_EQ(parse_time("3us"), 3000u);
  EXPECT_EQ(parse_time("0.001us"), 1u);
  EXPECT_EQ(parse_time("7ns"), 7u);
  EXPECT_EQ(parse_time("1500"), 1500u);
  EXPECT_EQ(parse_time("1500.0"), 1500u);
  EXPECT_EQ(parse_time("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(parse_time("18446744073.709551615s"), 18446744073709551615u);
  for (const char* wrong : {"", "s", ".5s", "1.s", "1.5", "1.0005us", "-1", "+1", " 1", "1 s", "1m", "1e3",
                            "1.5.5s", "18446744073709551616", "18446744074s"}) {
    EXPECT_FALSE(parse_time(wrong)) << wrong;
  }
}

TEST(CutArguments, StepsAreReadWithOpenEnds) {
  EXPECT_EQ(parse_steps("3:5"), (NumberRange{3, 5}));
  EXPECT_EQ(parse_steps("3"), (NumberRange{3, 3}));
  EXPECT_EQ(parse_steps("3:"), (NumberRange{3}));
  EXPECT_EQ(parse_steps(":5"), (NumberRange{0, 5}));
  for (const char* wrong : {"", ":", "5:3", "a", "1:b", "1:2:3", "-1", "1-2"})
    EXPECT_FALSE(parse_steps(wrong)) << wrong;
}

TEST(CutArguments, SpansOfTimeAreJoinedAndAsked) {
  const TimeSpans spans({{50, 60}, {10, 20}, {20, 30}, {9, 8}, {60, 70}});
  EXPECT_EQ(spans.list(), (std::vector<NumberRange>{{10, 30}, {50, 70}}));
  EXPECT_FALSE(spans.contains(9));
  EXPECT_TRUE(spans.contains(10));
  EXPECT_TRUE(spans.contains(30));
  EXPECT_FALSE(spans.contains(31));
  EXPECT_TRUE(spans.touches({31, 50}));
  EXPECT_FALSE(spans.touches({31, 49}));
  EXPECT_FALSE(spans.touches({60, 55}));
  EXPECT_EQ(spans.within({25, 55}).list(), (std::vector<NumberRange>{{25, 30}, {50, 55}}));
}

}  // namespace
}  // namespace tensortap::analyzers
