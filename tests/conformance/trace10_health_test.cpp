// The health of every fixture of trace/10 is that of expected.json, which the candle-graph crate has
// confirmed: issues with severity and code in order, coverage, both verdicts.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "analyzers/validation/validation.h"

namespace tensortap::analyzers {
namespace {

namespace json = boost::json;
using Texts = std::vector<std::string>;

json::object expected(std::string_view folder) {
  std::ifstream file(TRACE10_FIXTURES "/expected.json");
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(text.str()).at(folder).as_object();
}

json::object judged(std::string_view folder, std::string_view name) {
  return validation_json(
      validate_trace(TRACE10_FIXTURES "/" + std::string(folder) + "/" + std::string(name)));
}

Texts issues_of(const json::value& list) {
  Texts out;
  for (const json::value& issue : list.as_array()) {
    out.push_back(std::string(issue.at("severity").as_string()) + ' ' +
                  std::string(issue.at("code").as_string()));
  }
  return out;
}

std::map<std::string, std::uint64_t> counters_of(const json::value& object) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& member : object.as_object()) out[member.key()] = member.value().to_number<std::uint64_t>();
  return out;
}

// Every file of the folder has an entry, and the other way round.
void expect_complete(std::string_view folder, const json::object& entries) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRACE10_FIXTURES "/" + std::string(folder))) {
    ++files;
    EXPECT_TRUE(entries.contains(entry.path().filename().string())) << entry.path();
  }
  EXPECT_EQ(files, entries.size());
}

TEST(Trace10Health, ValidFilesHaveTheirWarningsAndCounts) {
  const json::object entries = expected("valid");
  expect_complete("valid", entries);
  for (const auto& [name, wanted] : entries) {
    SCOPED_TRACE(std::string(name));
    const json::object got = judged("valid", name);
    ASSERT_TRUE(got.at("readable").as_bool());
    EXPECT_EQ(issues_of(got.at("issues")), issues_of(wanted.at("issues")));
    EXPECT_EQ(counters_of(got.at("coverage")), counters_of(wanted.at("coverage")));
    EXPECT_EQ(got.at("structurally_valid"), wanted.at("structurally_valid"));
    EXPECT_EQ(got.at("capture_complete"), wanted.at("capture_complete"));
  }
}

TEST(Trace10Health, InvalidFilesHaveExactlyTheirCodesInOrder) {
  const json::object entries = expected("invalid");
  expect_complete("invalid", entries);
  int refused = 0;
  for (const auto& [name, wanted] : entries) {
    SCOPED_TRACE(std::string(name));
    const json::object got = judged("invalid", name);
    if (wanted.at("reader_rejects").as_bool()) {
      ++refused;
      EXPECT_FALSE(got.at("readable").as_bool());
      EXPECT_EQ(got.at("read_error").at("code"), wanted.at("code"));
      continue;
    }
    EXPECT_EQ(issues_of(got.at("issues")), issues_of(wanted.at("issues")));
    EXPECT_FALSE(got.at("structurally_valid").as_bool());
  }
  EXPECT_EQ(refused, 4);
}

TEST(Trace10Health, FilesWithoutEvidenceAreValid) {
  const json::object entries = expected("no-evidence");
  expect_complete("no-evidence", entries);
  for (const auto& [name, why] : entries) {
    EXPECT_TRUE(judged("no-evidence", name).at("structurally_valid").as_bool()) << name << ": " << why;
  }
}

// Why each rejected file is unreadable, by the stable code of its read error.
const std::map<std::string, std::string>& rejected() {
  static const std::map<std::string, std::string> table = {
      {"byte-order-mark", "malformed_json"},
      {"duplicate-field-in-contract", "repeated_field"},
      {"duplicate-field-in-meta", "repeated_field"},
      {"duplicate-field", "repeated_field"},
      {"duplicate-kind", "repeated_field"},
      {"duplicate-meta", "duplicate_meta"},
      {"duplicate-span-end", "duplicate_span_end"},
      {"duplicate-terminal", "record_after_terminal"},
      {"empty-file", "missing_meta"},
      {"event-after-terminal", "record_after_terminal"},
      {"exponent-integer", "wrong_type"},
      {"float-for-u64", "wrong_type"},
      {"infinite-literal", "number_out_of_range"},
      {"invalid-utf8", "invalid_utf8"},
      {"leading-zero", "wrong_type"},
      {"lone-surrogate", "malformed_json"},
      {"meta-not-first", "meta_not_first"},
      {"minus-zero-integer", "wrong_type"},
      {"missing-kind", "missing_field"},
      {"missing-meta", "meta_not_first"},
      {"missing-required-field", "missing_field"},
      {"missing-tags", "missing_field"},
      {"missing-terminal", "missing_terminal"},
      {"nan-token", "wrong_type"},
      {"negative-u64", "wrong_type"},
      {"nesting-too-deep", "nesting_too_deep"},
      {"non-string-tag", "wrong_type"},
      {"null-activations", "unknown_value"},
      {"null-for-non-optional", "wrong_type"},
      {"old-gradient-key-name", "missing_field"},
      {"overflow-in-unknown-field", "number_out_of_range"},
      {"raw-control-character", "malformed_json"},
      {"single-number-line", "malformed_json"},
      {"span-end-before-start", "span_end_without_start"},
      {"stats-shape-product-overflow", "invalid_tensor_stats"},
      {"string-for-integer", "wrong_type"},
      {"tensor-stats-blank-label", "invalid_tensor_stats"},
      {"tensor-stats-elements-mismatch", "invalid_tensor_stats"},
      {"tensor-stats-negative-rms", "invalid_tensor_stats"},
      {"tensor-stats-non-finite-exceeds", "invalid_tensor_stats"},
      {"tensor-stats-null-mean", "wrong_type"},
      {"terminal-before-device-sample", "terminal_precedes_evidence"},
      {"terminal-before-op-end", "terminal_precedes_evidence"},
      {"text-after-object", "malformed_json"},
      {"trace9-tensor-stats", "trace9_tensor_stats"},
      {"truncated-last-line", "malformed_json"},
      {"two-objects-on-a-line", "malformed_json"},
      {"u64-overflow", "wrong_type"},
      {"unknown-edge-kind", "unknown_value"},
      {"unknown-enum-value", "unknown_value"},
      {"unknown-kind", "unknown_kind"},
      {"unsupported-schema", "unsupported_schema"},
      {"wrong-enum-case", "unknown_value"},
  };
  return table;
}

TEST(Trace10Health, RejectedFilesHaveNoHealth) {
  const json::object entries = expected("rejected");
  expect_complete("rejected", entries);
  for (const auto& [name, why] : entries) {
    const json::object got = judged("rejected", name);
    EXPECT_FALSE(got.at("readable").as_bool()) << name << ": " << why;
    const std::string stem = std::string(name).substr(0, name.size() - std::string_view(".jsonl").size());
    ASSERT_TRUE(rejected().count(stem)) << name;
    EXPECT_EQ(std::string(got.at("read_error").at("code").as_string()), rejected().at(stem)) << name;
    EXPECT_TRUE(got.at("structurally_valid").is_null()) << name;
  }
}

}  // namespace
}  // namespace tensortap::analyzers
