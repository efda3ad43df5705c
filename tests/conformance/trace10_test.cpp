// Every fixture of trace/10 is read or refused as the specification's §11 says, at the line that is at fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "format/line_reader.h"
#include "format/stream_rules.h"
#include "format/trace_reader.h"
#include "tests/support/event_log.h"

namespace tensortap::format {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> fixtures(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(TRACE10_FIXTURES) / folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

struct Verdict {
  ReadReport report;
  Status rules;
  bool accepted() const { return report.bad_lines == 0 && !report.truncated && rules.ok(); }
  // §1.1: a bad line anywhere is told before any rule between lines.
  const Error& first_error() const { return report.errors.empty() ? rules.error() : report.errors.front(); }
};

Verdict judge(const fs::path& file) {
  Result<TraceReader> reader = TraceReader::open(file.string());
  EXPECT_TRUE(reader.ok()) << file;
  StreamRules rules;
  Verdict verdict;
  verdict.report = reader->read_all(rules);
  verdict.rules = rules.finish();
  return verdict;
}

void expect_accepted(const fs::path& file) {
  const Verdict verdict = judge(file);
  EXPECT_TRUE(verdict.accepted()) << file.filename() << ": " << verdict.first_error().to_string();
  EXPECT_TRUE(verdict.report.is_trace) << file.filename();
  EXPECT_GT(verdict.report.records, 2u) << file.filename();
}

TEST(Trace10, ValidFilesAreRead) {
  const std::vector<fs::path> files = fixtures("valid");
  EXPECT_EQ(files.size(), 27u);
  for (const fs::path& file : files) expect_accepted(file);
}

TEST(Trace10, FilesWithoutEvidenceAreRead) {
  for (const fs::path& file : fixtures("no-evidence")) expect_accepted(file);
}

// Marked R in §11.4: refused while reading. The others break rules of health only.
TEST(Trace10, InvalidFilesAreReadUnlessAStreamRuleForbidsThem) {
  const std::map<std::string, std::uint64_t> refused_at = {
      {"complete_with_failure_reason", 4},
      {"duplicate_span_id", 5},
      {"failed_without_reason", 4},
      {"terminal_precedes_evidence", 4},
  };
  const std::vector<fs::path> files = fixtures("invalid");
  EXPECT_EQ(files.size(), 53u);
  for (const fs::path& file : files) {
    const auto refused = refused_at.find(file.stem().string());
    if (refused == refused_at.end()) {
      expect_accepted(file);
      continue;
    }
    const Verdict verdict = judge(file);
    EXPECT_EQ(verdict.report.bad_lines, 0u) << file.filename();
    ASSERT_FALSE(verdict.rules.ok()) << file.filename();
    EXPECT_EQ(verdict.rules.error().line, refused->second) << file.filename();
    EXPECT_TRUE(verdict.rules.error().has_offset) << file.filename();
  }
}

// The faulty line of each rejected file; 0 = what is missing has no line. The bool: a line by itself is bad.
const std::map<std::string, std::pair<std::uint64_t, bool>>& rejected() {
  static const std::map<std::string, std::pair<std::uint64_t, bool>> table = {
      {"byte-order-mark", {1, true}},
      {"duplicate-field", {3, true}},
      {"duplicate-field-in-contract", {1, true}},
      {"duplicate-field-in-meta", {1, true}},
      {"duplicate-kind", {3, true}},
      {"duplicate-meta", {2, false}},
      {"duplicate-span-end", {4, false}},
      {"duplicate-terminal", {5, false}},
      {"empty-file", {0, false}},
      {"event-after-terminal", {5, false}},
      {"exponent-integer", {3, true}},
      {"float-for-u64", {3, true}},
      {"infinite-literal", {3, true}},
      {"invalid-utf8", {2, true}},
      {"leading-zero", {3, true}},
      {"lone-surrogate", {2, true}},
      {"meta-not-first", {1, false}},
      {"minus-zero-integer", {2, true}},
      {"missing-kind", {3, true}},
      {"missing-meta", {1, false}},
      {"missing-required-field", {3, true}},
      {"missing-tags", {1, true}},
      {"missing-terminal", {0, false}},
      {"nan-token", {3, true}},
      {"negative-u64", {3, true}},
      {"nesting-too-deep", {2, true}},
      {"non-string-tag", {1, true}},
      {"null-activations", {1, true}},
      {"null-for-non-optional", {3, true}},
      {"old-gradient-key-name", {3, true}},
      {"overflow-in-unknown-field", {2, true}},
      {"raw-control-character", {2, true}},
      {"single-number-line", {3, true}},
      {"span-end-before-start", {2, false}},
      {"stats-shape-product-overflow", {3, false}},
      {"string-for-integer", {3, true}},
      {"tensor-stats-blank-label", {3, false}},
      {"tensor-stats-elements-mismatch", {3, false}},
      {"tensor-stats-negative-rms", {3, false}},
      {"tensor-stats-non-finite-exceeds", {3, false}},
      {"tensor-stats-null-mean", {3, true}},
      {"terminal-before-device-sample", {5, false}},
      {"terminal-before-op-end", {5, false}},
      {"text-after-object", {3, true}},
      {"trace9-tensor-stats", {3, false}},
      {"truncated-last-line", {4, true}},
      {"two-objects-on-a-line", {2, true}},
      {"u64-overflow", {3, true}},
      {"unknown-edge-kind", {3, true}},
      {"unknown-enum-value", {3, true}},
      {"unknown-kind", {3, true}},
      {"unsupported-schema", {1, false}},
      {"wrong-enum-case", {1, true}},
  };
  return table;
}

TEST(Trace10, RejectedFilesAreRefusedAtTheFaultyLine) {
  std::set<std::string> seen;
  for (const fs::path& file : fixtures("rejected")) {
    const std::string name = file.stem().string();
    seen.insert(name);
    const auto expected = rejected().find(name);
    ASSERT_NE(expected, rejected().end()) << name << " has no entry in the table";
    const Verdict verdict = judge(file);
    ASSERT_FALSE(verdict.accepted()) << name;
    EXPECT_EQ(verdict.first_error().line, expected->second.first)
        << name << ": " << verdict.first_error().to_string();
    EXPECT_EQ(verdict.report.bad_lines, expected->second.second ? 1u : 0u) << name;
  }
  EXPECT_EQ(seen.size(), rejected().size()) << "fixtures are missing";
}

// What a valid file says is not changed by reading and writing it: read again, it gives the same lines.
// The inputs behind public reports on traces (their right answers: the analyzers' cases). Bytes that are not
// UTF-8 are what a writer must never write: a reader refuses their lines, and goes on.
TEST(Trace10, TracesBehindPublicReportsAreReadOrRefusedWithAPlainReason) {
  const std::map<std::string, std::uint64_t> bad_lines = {{"names-with-bytes-that-are-not-utf8", 2},
                                                          {"length-that-claims-2-63", 0}};
  for (const auto& entry : fs::directory_iterator(KNOWN_ANSWERS)) {
    const Verdict verdict = judge(entry.path());
    const std::string name = entry.path().stem().string();
    const auto expected = bad_lines.find(name);
    if (expected == bad_lines.end()) {
      expect_accepted(entry.path());
      continue;
    }
    EXPECT_FALSE(verdict.accepted()) << name;
    EXPECT_EQ(verdict.report.bad_lines, expected->second) << name;
    EXPECT_TRUE(verdict.first_error().has_offset) << name;
  }
}

std::string rewritten(TraceReader& reader) {
  EventLog log;
  EXPECT_EQ(reader.read_all(log).bad_lines, 0u);
  return log.lines;
}

TEST(Trace10, WhatWasReadAndWrittenReadsTheSameAgain) {
  for (const fs::path& file : fixtures("valid")) {
    const std::string once = rewritten(*TraceReader::open(file.string()));
    LineReader reader;
    EventLog again;
    Place place;
    for (std::size_t begin = 0; begin < once.size();) {
      const std::size_t end = once.find('\n', begin);
      const std::string_view line = std::string_view(once).substr(begin, end - begin);
      ASSERT_TRUE(reader.read(line, place, again).ok()) << file.filename() << ": " << line;
      begin = end + 1;
    }
    EXPECT_EQ(again.lines, once) << file.filename();
  }
}

// proto/samples: a stream with every kind of record and every member of `ext`, byte for byte as we write it.
TEST(Trace10, TheGoldenSampleIsReadAndWrittenWithoutChange) {
  const fs::path file = fs::path(GOLDEN_SAMPLES) / "trace-10.jsonl";
  expect_accepted(file);
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  EXPECT_EQ(rewritten(*TraceReader::open(file.string())), bytes.str());
}

// The fixture is written compactly and in the order of the specification's tables, which is the writer's rule
// (§1.1); only its hand-made meta line is not.
TEST(Trace10, TheWriterWritesLinesAsTheFixturesDo) {
  const fs::path file = fs::path(TRACE10_FIXTURES) / "valid" / "training-step.jsonl";
  const std::string ours = rewritten(*TraceReader::open(file.string()));
  std::size_t begin = 0;
  std::string_view line;
  Place place;
  Result<TraceReader> reader = TraceReader::open(file.string());
  while (reader->next_line(line, place)) {
    const std::size_t end = ours.find('\n', begin);
    if (place.line > 1) {
      EXPECT_EQ(ours.substr(begin, end - begin), line);
    }
    begin = end + 1;
  }
  EXPECT_EQ(place.line, 47u);
}

}  // namespace
}  // namespace tensortap::format
