// The graph's summary: covers, self times, the rankings, repeated node ids.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "analyzers/candle/child_cover.h"
#include "analyzers/candle/dense_bytes.h"
#include "analyzers/candle/top_list.h"
#include "tests/unit/analyzers/candle_stream.h"

namespace tensortap::analyzers::candle {
namespace {

using testing::Stream;

struct Interval {
  std::uint64_t begin = 0, end = 0;
};

std::uint64_t union_length(const std::vector<Interval>& intervals) {
  std::set<std::uint64_t> covered;
  for (const Interval& i : intervals) {
    for (std::uint64_t at = i.begin; at < i.end; ++at) covered.insert(at);
  }
  return covered.size();
}

TEST(ChildCover, IsTheLengthOfTheUnionOrSaysThatItIsIrregular) {
  std::mt19937 random(7);
  int regular = 0, irregular = 0;
  for (int round = 0; round < 3000; ++round) {
    ChildCover cover;
    std::vector<Interval> intervals;
    for (std::uint32_t i = random() % 6; i > 0; --i) {
      const std::uint64_t begin = random() % 20;
      intervals.push_back({begin, begin + random() % 8});
      cover.add(intervals.back().begin, intervals.back().end);
    }
    if (cover.irregular) {
      ++irregular;
    } else {
      EXPECT_EQ(cover.covered_ns, union_length(intervals));
      ++regular;
    }
  }
  EXPECT_GT(regular, 1000);
  EXPECT_GT(irregular, 100);
}

TEST(ChildCover, TakesTheUsualOrdersAsRegular) {
  ChildCover in_turn, around, nested, backwards;
  for (std::uint64_t at : {0, 10, 30}) in_turn.add(at, at + 5);
  EXPECT_EQ(in_turn.covered_ns, 15u);
  for (std::uint64_t at : {10, 30}) around.add(at, at + 5);
  around.add(0, 100);  // an operator's own record around its inner operators
  EXPECT_EQ(around.covered_ns, 100u);
  nested.add(0, 100);
  nested.add(10, 20);
  EXPECT_EQ(nested.covered_ns, 100u);
  for (std::uint64_t at : {30, 10, 0}) backwards.add(at, at + 5);
  EXPECT_EQ(backwards.covered_ns, 15u);
  for (const ChildCover& cover : {in_turn, around, nested, backwards}) EXPECT_FALSE(cover.irregular);
}

TEST(TopList, KeepsTheFirstOfEqualOnes) {
  struct Row {
    int key, order;
  };
  const auto greater = [](const Row& a, const Row& b) { return a.key > b.key; };
  TopList<Row, decltype(greater)> top(3, greater);
  for (int i = 0; i < 10; ++i) top.offer({i == 4 ? 2 : 1, i});
  ASSERT_EQ(top.rows().size(), 3u);
  EXPECT_EQ(top.rows()[0].order, 4);
  EXPECT_EQ(top.rows()[1].order, 0);
  EXPECT_EQ(top.rows()[2].order, 1);
}

TEST(DenseBytes, IsTheProductWhereTheDtypeIsKnown) {
  const std::uint64_t shape[] = {2, 3};
  EXPECT_EQ(dense_bytes(shape, "bool"), 6u);
  EXPECT_EQ(dense_bytes(shape, " BF16\t"), 12u);
  EXPECT_EQ(dense_bytes(shape, "I32"), 24u);
  EXPECT_EQ(dense_bytes(shape, "f64"), 48u);
  EXPECT_EQ(dense_bytes({}, "f8"), 1u);
  EXPECT_EQ(dense_bytes(shape, "q4k"), std::nullopt);
  const std::uint64_t huge[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  EXPECT_EQ(dense_bytes(huge, "u8"), ~std::uint64_t{0});
  const std::uint64_t zero[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40, 0};
  EXPECT_EQ(dense_bytes(zero, "u8"), 0u);
}

// Spans of random trees, each inside its parent, with ops; what the specification says, worked out plainly.
struct Tree {
  struct Node {
    std::string id, parent;
    Interval at;
    bool is_span = true;
  };
  std::vector<Node> nodes;

  explicit Tree(std::uint32_t seed) {
    std::mt19937 random(seed);
    nodes.push_back({"r", "", {0, 300}});
    nodes.push_back({"w", "r", {60, 200}});
    for (int i = 0; i < 30; ++i) {
      const Node parent = nodes[random() % nodes.size()];
      if (!parent.is_span) continue;
      const std::uint64_t length = parent.at.end - parent.at.begin;
      std::uint64_t a = parent.at.begin + random() % (length + 1),
                    b = parent.at.begin + random() % (length + 1);
      nodes.push_back(
          {"n" + std::to_string(i), parent.id, {std::min(a, b), std::max(a, b)}, random() % 3 != 0});
    }
  }

  std::vector<Interval> children_of(const std::string& id, const Interval& window) const {
    std::vector<Interval> out;
    for (const Node& node : nodes) {
      if (node.parent == id)
        out.push_back({std::max(node.at.begin, window.begin), std::min(node.at.end, window.end)});
    }
    return out;
  }
};

TEST(SlowestHostSpans, AreThoseOfAPlainComputation) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const Tree tree(seed);
    Stream stream;
    stream.begin();
    for (const Tree::Node& node : tree.nodes) {
      const std::uint64_t duration = node.at.end - node.at.begin;
      if (node.is_span) {
        stream.span(node.id, node.parent, node.at.begin, duration, {.measured = node.id == "w"});
      } else {
        stream.op(node.parent, "op", node.at.begin, duration);
      }
    }
    ASSERT_TRUE(stream.end());
    ASSERT_TRUE(stream.evidence.graph());
    using Row = std::pair<std::vector<std::int64_t>, std::string>;  // minus overlap self, minus self; id
    std::vector<Row> expected;
    const Interval window{60, 200}, all{0, 1000};
    for (const Tree::Node& node : tree.nodes) {
      const std::uint64_t begin = std::max(node.at.begin, window.begin),
                          end = std::min(node.at.end, window.end);
      if (!node.is_span || node.id == "r" || begin >= end) continue;
      const std::uint64_t self = node.at.end - node.at.begin - union_length(tree.children_of(node.id, all));
      const std::uint64_t overlap = end - begin - union_length(tree.children_of(node.id, window));
      expected.push_back({{-static_cast<std::int64_t>(overlap), -static_cast<std::int64_t>(self)}, node.id});
    }
    std::sort(expected.begin(), expected.end());
    if (expected.size() > 8) expected.resize(8);
    std::vector<Row> ours;
    for (const HostSpan& span : stream.evidence.graph()->slowest_host) {
      ours.push_back(
          {{-static_cast<std::int64_t>(span.overlap_self_ns), -static_cast<std::int64_t>(span.self_ns)},
           stream.evidence.tables().spans.text(span.span)});
    }
    EXPECT_EQ(ours, expected) << "seed " << seed;
  }
}

TEST(SpanScope, EndsForCyclesAndUnknownParents) {
  Stream stream;
  stream.begin()
      .span("a", "b", 0, 1)
      .span("b", "c", 0, 1)
      .span("c", "a", 0, 1)
      .span("into", "a", 0, 1)
      .span("lost", "ghost", 0, 1)
      .span("m", "n", 0, 1, {.measured = true})
      .span("n", "m", 0, 1);
  ASSERT_TRUE(stream.end());
  const SpanScope scope(stream.evidence.spans());
  const auto of = [&](const char* id) { return scope[stream.evidence.tables().spans.find(id)]; };
  for (const char* id : {"a", "b", "c", "into", "lost"}) EXPECT_EQ(of(id), Scope::kConcurrentOverlap) << id;
  EXPECT_EQ(of("m"), Scope::kMeasuredSubtree);
  EXPECT_EQ(of("n"), Scope::kMeasuredSubtree);
  EXPECT_EQ(of("ghost"), Scope::kUnknown);
  EXPECT_EQ(scope[kNoId], Scope::kUnknown);
}

std::vector<HeavySpan> heaviest_of(Stream& stream) {
  EXPECT_TRUE(stream.end());
  EXPECT_TRUE(stream.evidence.graph());
  return stream.evidence.graph()->heaviest;
}

TEST(HeaviestSpans, PeakIsThatOfTheSubtreeDuringTheSpan) {
  Stream stream;
  stream.begin().span("r", "", 0, 100, {.measured = true}).span("a", "r", 10, 50).span("b", "a", 20, 10);
  stream.alloc("r", "before", 5, 1000).free("r", "before", 15, 1000);  // not of a's subtree
  stream.alloc("a", "s1", 12, 8).free("b", "s1", 25, 8);
  stream.alloc("b", "s2", 25, 16);  // freed and allocated at once: never 24
  stream.alloc("b", "s3", 28, 2).free("r", "s3", 90, 2);
  const std::vector<HeavySpan> heaviest = heaviest_of(stream);
  ASSERT_EQ(heaviest.size(), 3u);
  EXPECT_EQ(heaviest[0].allocated_bytes, 1000u);
  EXPECT_EQ(heaviest[1].allocated_bytes, 18u);  // b
  EXPECT_EQ(heaviest[1].peak_live_bytes, 18u);
  EXPECT_EQ(heaviest[2].allocated_bytes, 8u);  // a
  EXPECT_EQ(heaviest[2].peak_live_bytes, 18u);
}

TEST(HeaviestSpans, WithoutStorageAreCandidatesOnlyUnderACompleteClaim) {
  for (const bool is_complete : {false, true}) {
    Stream stream;
    if (is_complete) stream.meta.capture_contract.logical_memory = format::Coverage::kComplete;
    stream.begin().span("r", "", 0, 9, {.measured = true}).span("a", "r", 0, 9).alloc("r", "s", 1, 8);
    EXPECT_EQ(heaviest_of(stream).size(), is_complete ? 2u : 1u);
  }
}

TEST(RepeatedNodeId, IsFoundForEachPairOfKinds) {
  const auto has_graph = [](const char* span, const char* span_of_op, const char* tensor) {
    Stream stream;
    stream.begin().span("r", "", 0, 9, {.measured = true}).span(span, "r", 0, 9);
    stream.op("r", "op", 0, 1).op(span_of_op, "op", 0, 1, {.output = tensor});
    return stream.end().ok();
  };
  EXPECT_FALSE(has_graph("r/op/1", "r", "t"));                // span and op
  EXPECT_FALSE(has_graph("tensor/t", "r", "t"));              // span and tensor
  EXPECT_FALSE(has_graph("tensor/a", "tensor/a", "a/op/0"));  // op and tensor
  EXPECT_TRUE(has_graph("r/op/2", "r", "t"));                 // there are ops 0 and 1
  EXPECT_TRUE(has_graph("r/op/01", "r", "t"));
  EXPECT_TRUE(has_graph("r/op/", "r", "t"));
  EXPECT_TRUE(has_graph("x/op/0", "r", "t"));
  EXPECT_TRUE(has_graph("tensor/u", "r", "t"));
  EXPECT_TRUE(has_graph("tensor/a", "tensor/a", "a/op/1"));
}

TEST(RepeatedNodeId, DoesNotMatterWithoutAGraph) {
  Stream stream;
  stream.begin().span("r", "", 0, 9, {.measured = true}).span("r/op/0", "r", 0, 9).op("r", "op", 0, 1);
  EXPECT_TRUE(stream.end(format::Outcome::kFailed));
  EXPECT_FALSE(stream.evidence.graph());
}

}  // namespace
}  // namespace tensortap::analyzers::candle
