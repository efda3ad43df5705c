// Capabilities, facts, findings, activations and the graph's summary of every public trace of trace/10: as
// expected.json says.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "analyzers/candle/documents.h"
#include "format/trace_reader.h"

namespace tensortap::analyzers::candle {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

json::object expectations() {
  std::ifstream file(fs::path(TRACE10_FIXTURES) / "expected.json", std::ios::binary);
  EXPECT_TRUE(file);
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {})).as_object();
}

std::unique_ptr<Evidence> read(const fs::path& trace) {
  auto reader = format::TraceReader::open(trace.string());
  EXPECT_TRUE(reader) << trace;
  auto evidence = std::make_unique<Evidence>();
  EXPECT_EQ(reader->read_all(*evidence).bad_lines, 0u) << trace;
  return evidence;
}

json::object summary_of(const Evidence& evidence) {
  std::ostringstream text;
  {
    JsonOut out(text);
    write_summary(out, evidence, {"t.jsonl", "t.jsonl"});
  }
  return json::parse(text.str()).as_object();
}

json::object levels_of(const json::object& states) {
  json::object levels;
  for (const auto& [key, state] : states) {
    const json::object* members = state.if_object();
    if (members != nullptr && members->contains("level")) levels[key] = members->at("level");
  }
  return levels;
}

json::array facts_of(const Evidence& evidence) {
  static constexpr const char* kKinds[] = {"duration_ns", "bytes", "count", "text"};
  json::array out;
  for (const Fact& fact : evidence.facts()) {
    json::object value{{"kind", kKinds[static_cast<int>(fact.kind)]}};
    std::visit([&](const auto& figure) { value["value"] = figure; }, fact.value);
    out.push_back(json::object{
        {"code", fact.code}, {"value", std::move(value)}, {"capability", capability_kind(fact.capability)}});
  }
  return out;
}

json::array findings_of(const json::object& summary) {
  json::array out;
  for (json::value finding : summary.at("findings").as_array()) {
    finding.as_object().erase("summary");
    out.push_back(std::move(finding));
  }
  return out;
}

json::object activations_of(const json::object& summary) {
  const json::object& profile = summary.at("activations").as_object();
  json::object out = levels_of(profile);
  out["unattributed_activation_storages"] = profile.at("unattributed_activation_storages");
  out["operations"] = profile.at("operations");
  return out;
}

void expect_graph(const Evidence& evidence, const json::object& summary, const json::object& expected) {
  const json::object& ours = summary.at("summary").as_object();
  for (const char* member :
       {"outer_wall_time_ns", "slowest_host_spans", "slowest_device_spans", "heaviest_spans"}) {
    EXPECT_EQ(ours.at(member), expected.at(member)) << member;
  }
  EXPECT_EQ(evidence.graph()->nodes, expected.at("nodes").as_array().size());
}

TEST(CandleEvidence, EveryValidTraceHasTheEvidenceThatExpectedJsonSays) {
  int seen = 0;
  const json::object all = expectations();
  for (const auto& [name, value] : all.at("valid").as_object()) {
    SCOPED_TRACE(std::string(name));
    const json::object& expected = value.as_object();
    const auto evidence = read(fs::path(TRACE10_FIXTURES) / "valid" / std::string(name));
    ASSERT_TRUE(evidence->finish());
    const json::object summary = summary_of(*evidence);
    EXPECT_EQ(levels_of(summary.at("capabilities").as_object()), expected.at("capabilities"));
    EXPECT_EQ(facts_of(*evidence), expected.at("facts"));
    EXPECT_EQ(findings_of(summary), expected.at("findings"));
    EXPECT_EQ(activations_of(summary), expected.at("activations"));
    EXPECT_EQ(evidence->graph().has_value(), expected.contains("graph"));
    if (evidence->graph()) expect_graph(*evidence, summary, expected.at("graph").as_object());
    ++seen;
  }
  EXPECT_EQ(seen, 27);
}

TEST(CandleEvidence, EveryInvalidTraceHasTheCapabilitiesThatExpectedJsonSays) {
  int seen = 0;
  const json::object all = expectations();
  for (const auto& [name, value] : all.at("invalid").as_object()) {
    SCOPED_TRACE(std::string(name));
    const json::object& expected = value.as_object();
    const auto evidence = read(fs::path(TRACE10_FIXTURES) / "invalid" / std::string(name));
    const bool is_refused = expected.at("reader_rejects").as_bool();
    ASSERT_EQ(evidence->finish().ok(), !is_refused);
    if (is_refused) continue;
    const json::object summary = summary_of(*evidence);
    EXPECT_EQ(levels_of(summary.at("capabilities").as_object()), expected.at("capabilities"));
    EXPECT_TRUE(summary.at("summary").is_null());
    ++seen;
  }
  EXPECT_EQ(seen, 49);
}

TEST(CandleEvidence, NoEvidenceIsMadeWhenTwoNodesWouldHaveOneId) {
  int seen = 0;
  const json::object all = expectations();
  for (const auto& [name, value] : all.at("no-evidence").as_object()) {
    const auto evidence = read(fs::path(TRACE10_FIXTURES) / "no-evidence" / std::string(name));
    const format::Status status = evidence->finish();
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code, format::ErrorCode::kInvalidArgument);
    ++seen;
  }
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace tensortap::analyzers::candle
