// The trace/10 fixtures: figures against expected.json, which the candle-graph crate has confirmed.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "analyzers/calls/call_tree.h"
#include "format/trace_reader.h"
#include "tests/unit/analyzers/support.h"

namespace tensortap::analyzers::testing {
namespace {

boost::json::object expected() {
  std::ifstream file(TRACE10_FOLDER "/expected.json");
  std::stringstream text;
  text << file.rdbuf();
  return boost::json::parse(text.str()).as_object();
}

boost::json::object report_of(const std::string& path) {
  auto reader = format::TraceReader::open(path);
  EXPECT_TRUE(reader) << path;
  Analysis analysis;
  analysis.consume(*reader);
  return analysis.report();
}

// Calls `check(name, wanted, report)` for every file of a folder that the reader takes.
template <class Check>
void for_each(const char* folder, Check check) {
  const boost::json::object all = expected();
  ASSERT_FALSE(all.at(folder).as_object().empty());
  for (const auto& [name, wanted] : all.at(folder).as_object()) {
    SCOPED_TRACE(std::string(name));
    check(std::string(name), wanted.as_object(),
          report_of(TRACE10_FOLDER "/" + std::string(folder) + "/" + std::string(name)));
  }
}

std::map<std::string, std::uint64_t> by_name(const boost::json::value& rows) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& item : rows.as_array())
    out[item.at("name").as_string().c_str()] = number(item.at("bytes"));
  return out;
}
std::map<std::string, std::uint64_t> by_key(const boost::json::value& object) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [key, value] : object.as_object()) out[std::string(key)] = number(value);
  return out;
}

TEST(Fixtures, LogicalMemoryIsTheSpecifications) {
  int compared = 0;
  for_each("valid", [&](const std::string&, const boost::json::object& wanted,
                        const boost::json::object& report) {
    const auto* memory = wanted.if_contains("logical_memory");
    if (!memory || !memory->is_object()) return;
    ++compared;
    EXPECT_EQ(number_at(report, "/memory/allocations/value"), number(memory->at("storage_allocation_count")));
    EXPECT_EQ(number_at(report, "/memory/frees/value"), number(memory->at("matched_storage_free_count")));
    EXPECT_EQ(number_at(report, "/memory/allocated/value"), number(memory->at("total_allocated_bytes")));
    const auto* peak = memory->as_object().if_contains("peak");
    if (!peak || !peak->is_object()) return;
    EXPECT_EQ(number_at(report, "/memory/peak/live/value"), number(peak->at("live_bytes")));
    EXPECT_EQ(number_at(report, "/memory/peak/time/value"), number(peak->at("timestamp_ns")));
    EXPECT_EQ(by_name(at(report, "/memory/peak/by_device")), by_key(peak->at("live_bytes_by_device")));
    EXPECT_EQ(by_name(at(report, "/memory/peak/by_category")), by_key(peak->at("live_bytes_by_category")));
  });
  EXPECT_GE(compared, 5);
}

void compare_issues(const std::string&, const boost::json::object& wanted,
                    const boost::json::object& report) {
  const auto* issues = wanted.if_contains("issues");
  if (!issues) return;  // the crate's reader refuses the file
  std::map<std::string, std::uint64_t> want, got;
  for (const auto& item : issues->as_array()) ++want[item.at("code").as_string().c_str()];
  for (const auto& item : items(report, "/health/issues")) {
    const std::string code = item.at("code").as_string().c_str();
    if (!code.starts_with("timestamp_")) got[code] = number(item.at("count"));  // ours
  }
  EXPECT_EQ(got, want);
}

TEST(Fixtures, ValidTracesHaveTheIssuesOfTheSpecification) { for_each("valid", compare_issues); }
TEST(Fixtures, InvalidTracesHaveTheIssuesOfTheSpecification) { for_each("invalid", compare_issues); }

// Self times of spans as the call tree reports them, late children taken off.
class SelfTimes : public CallVisitor {
 public:
  void on_span_closed(const Span& span, bool) override { self[span.id] = span.self_ns(); }
  void on_late_child(const Span& span, std::uint64_t shrinks) override { self[span.id] -= shrinks; }
  std::map<std::string, std::uint64_t> self;
};

class TreeFeeder : public format::EventVisitor {
 public:
  explicit TreeFeeder(CallTree& tree) : tree_(tree) {}
  void on_span_start(const format::SpanStart& event, const format::Place& place) override {
    tree_.on_span_start(event, place);
  }
  void on_span_end(const format::SpanEnd& event, const format::Place&) override { tree_.on_span_end(event); }
  void on_op(const format::Op& event, const format::Place&) override { tree_.on_op(event); }

 private:
  CallTree& tree_;
};

TEST(Fixtures, SelfTimesAreTheCratesGraph) {
  int compared = 0;
  for_each("valid",
           [&](const std::string& name, const boost::json::object& wanted, const boost::json::object&) {
             const auto* graph = wanted.if_contains("graph");
             if (!graph || !graph->is_object()) return;
             CallTree tree;
             SelfTimes times;
             tree.set_visitors({&times});
             TreeFeeder feeder(tree);
             auto reader = format::TraceReader::open(TRACE10_FOLDER "/valid/" + name);
             ASSERT_TRUE(reader);
             reader->read_all(feeder);
             for (const auto& node : graph->at("nodes").as_array()) {
               const std::string id = node.at("id").as_string().c_str();
               const auto found = times.self.find(id);
               // A span of duration 0 gets the sum of its children in the crate's graph (§4.5); it has no
               // self time here.
               if (found == times.self.end() || number(node.at("host_total_time_ns")) == 0) continue;
               EXPECT_EQ(found->second, number(node.at("host_self_time_ns"))) << id;
               ++compared;
             }
           });
  EXPECT_GE(compared, 40);
}

TEST(Fixtures, TheTrainingStepHasItsOperatorsAndPhases) {
  const auto report = report_of(TRACE10_FOLDER "/valid/training-step.jsonl");
  EXPECT_EQ(number_at(report, "/timing/duration/value"), 6000U);
  EXPECT_EQ(number_at(report, "/timing/phases/forward/total/value"), 1500U);
  EXPECT_EQ(number_at(report, "/timing/phases/backward/total/value"), 1800U);
  EXPECT_EQ(number_at(report, "/timing/phases/optimizer/total/value"), 1300U);
  EXPECT_EQ(number(row(report, "/timing/modules", "mlp/forward"), "self"), 350U);
  EXPECT_EQ(number(row(report, "/counts/by_operator", "matmul"), "top_level"), 1U);
  EXPECT_EQ(number(row(report, "/memory/sampled", "cuda:0", "device"), "used"), 734003200U);
}

}  // namespace
}  // namespace tensortap::analyzers::testing
