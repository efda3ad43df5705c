// The graph's nodes and edges: memory of spans and operations, self times, edges and their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "analyzers/candle/graph.h"
#include "tests/unit/analyzers/candle_stream.h"

namespace tensortap::analyzers::candle {
namespace {

using testing::Stream;

constexpr std::uint64_t kMost = ~std::uint64_t{0};

SpanMemory memory_of(const Stream& stream, bool is_complete, std::uint64_t most = SpanMemory::kMostChanges) {
  const Evidence& e = stream.evidence;
  return {e.tables(), e.spans(), e.ops(), e.logical(), is_complete, most};
}
SpanMemory::Row row_of(const Stream& stream, const SpanMemory& memory, const char* span) {
  return memory[stream.evidence.tables().spans.find(span)];
}

struct SpanMemoryTest : ::testing::Test {
  Stream stream;
  // Root 0-100 with two children, 10-50 and 60-90.
  void SetUp() override {
    stream.begin().span("r", "", 0, 100, {.measured = true}).span("a", "r", 10, 40).span("b", "r", 60, 30);
  }
};

TEST_F(SpanMemoryTest, ASpanCountsItsOwnAllocationsAndThePeakOfItsSubtree) {
  stream.alloc("a", "x", 20, 8).free("b", "x", 70, 8).alloc("r", "y", 30, 4).alloc("b", "z", 70, 2);
  ASSERT_TRUE(stream.end().ok());
  const SpanMemory memory = memory_of(stream, false);
  const auto root = row_of(stream, memory, "r"), a = row_of(stream, memory, "a"),
             b = row_of(stream, memory, "b");
  EXPECT_EQ(root.allocated_bytes, 4u);
  EXPECT_EQ(root.peak_live_bytes, 12u);
  EXPECT_EQ(root.residual_bytes, 6u);
  EXPECT_EQ(a.peak_live_bytes, 8u);
  EXPECT_EQ(a.residual_bytes, 8u);
  EXPECT_EQ(b.allocated_bytes, 2u);
  EXPECT_EQ(b.peak_live_bytes, 2u);  // x is charged to a
}

TEST_F(SpanMemoryTest, WithoutALifetimeItIsUnknownUnlessTheRecordIsComplete) {
  stream.alloc("a", "x", 20, 8);
  ASSERT_TRUE(stream.end().ok());
  EXPECT_FALSE(row_of(stream, memory_of(stream, false), "b").knows_allocated);
  EXPECT_FALSE(row_of(stream, memory_of(stream, false), "b").knows_subtree);
  EXPECT_FALSE(row_of(stream, memory_of(stream, false), "r").knows_allocated);
  EXPECT_TRUE(row_of(stream, memory_of(stream, false), "r").knows_subtree);
  EXPECT_TRUE(row_of(stream, memory_of(stream, true), "b").knows_allocated);
  EXPECT_TRUE(row_of(stream, memory_of(stream, true), "b").knows_subtree);
}

TEST_F(SpanMemoryTest, WithoutAMemoryRecordNothingIsKnown) {
  ASSERT_TRUE(stream.end().ok());
  EXPECT_FALSE(row_of(stream, memory_of(stream, true), "r").knows_allocated);
}

TEST_F(SpanMemoryTest, ASpanWithoutLengthHasNothingLive) {
  stream.span("p", "a", 20, 0).alloc("p", "x", 20, 8);
  ASSERT_TRUE(stream.end().ok());
  const auto point = row_of(stream, memory_of(stream, false), "p");
  EXPECT_EQ(point.allocated_bytes, 8u);
  EXPECT_TRUE(point.knows_subtree);
  EXPECT_EQ(point.peak_live_bytes + point.residual_bytes, 0u);
}

// 0.10.1 takes the frees of a time off first, never below 0: found by running it.
TEST_F(SpanMemoryTest, AFreeAtTheTimeOfItsAllocationComesFirst) {
  stream.alloc("a", "x", 20, 8).free("a", "x", 20, 8).alloc("a", "y", 30, 4);
  ASSERT_TRUE(stream.end().ok());
  EXPECT_EQ(row_of(stream, memory_of(stream, false), "a").peak_live_bytes, 12u);
}

TEST_F(SpanMemoryTest, SumsSaturate) {
  stream.alloc("a", "x", 20, kMost).alloc("a", "y", 30, 4);
  ASSERT_TRUE(stream.end().ok());
  const auto a = row_of(stream, memory_of(stream, false), "a");
  EXPECT_EQ(a.allocated_bytes, kMost);
  EXPECT_EQ(a.peak_live_bytes, kMost);
  EXPECT_EQ(a.residual_bytes, kMost);
}

TEST_F(SpanMemoryTest, AnOperationIsChargedOnlyWhenItsNameIsAlone) {
  stream.op("a", "mm", 20, 1).op("a", "add", 21, 1).op("a", "add", 22, 1).op("b", "mm", 70, 1);
  stream.alloc("a", "x", 20, 8, {.op_name = "mm"}).alloc("a", "y", 20, 4, {.op_name = "mm"});
  stream.alloc("a", "z", 21, 2, {.op_name = "add"}).alloc("a", "w", 21, 2, {.op_name = "none"});
  ASSERT_TRUE(stream.end().ok());
  const SpanMemory memory = memory_of(stream, true);
  EXPECT_EQ(memory.of_op(0), 12u);
  EXPECT_EQ(memory.of_op(1), std::nullopt);
  EXPECT_EQ(memory.of_op(2), std::nullopt);
  EXPECT_EQ(memory.of_op(3), std::nullopt);  // no lifetime names it: not known, also when all are recorded
}

TEST_F(SpanMemoryTest, TooMuchNestingIsRefused) {
  for (int i = 0; i < 4; ++i) stream.alloc("a", "s" + std::to_string(i), 20, 8);
  ASSERT_TRUE(stream.end().ok());
  EXPECT_TRUE(memory_of(stream, false, 8).status().ok());
  const SpanMemory refused = memory_of(stream, false, 7);
  ASSERT_FALSE(refused.status().ok());
  EXPECT_EQ(refused.status().error().code, format::ErrorCode::kUnsupported);
}

TEST_F(SpanMemoryTest, TooManyStepsAreRefusedAlsoWhenNothingChanges) {
  for (int i = 0; i < 9; ++i) stream.alloc("r", "s" + std::to_string(i), 0, 8);
  ASSERT_TRUE(stream.end().ok());
  EXPECT_TRUE(memory_of(stream, false, 2).status().ok());
  EXPECT_FALSE(memory_of(stream, false, 1).status().ok());
}

// Against the definition, on random trees and lifetimes.
TEST(SpanMemory, AgreesWithTheDefinition) {
  struct Span {
    int parent;
    std::uint64_t begin, end;
  };
  struct Life {
    std::size_t span;
    std::uint64_t begin, end, bytes;
    bool open;
  };
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto within = [&](std::uint64_t a, std::uint64_t b) { return a + random() % (b - a + 1); };
    Stream stream;
    stream.begin().span("s0", "", 0, 40, {.measured = true});
    std::vector<Span> spans = {{-1, 0, 40}};
    for (std::uint32_t i = random() % 8; i > 0; --i) {
      const int parent = static_cast<int>(random() % spans.size());
      const Span above = spans[static_cast<std::size_t>(parent)];
      const std::uint64_t begin = within(above.begin, above.end), end = within(begin, above.end);
      stream.span("s" + std::to_string(spans.size()), "s" + std::to_string(parent), begin, end - begin);
      spans.push_back({parent, begin, end});
    }
    std::vector<Life> lives;
    for (std::uint32_t i = random() % 12; i > 0; --i) {
      const std::size_t span = random() % spans.size();
      const std::uint64_t begin = within(spans[span].begin, spans[span].end), end = within(begin, 40);
      const Life life{span, begin, end, random() % 9, random() % 3 == 0};
      const std::string storage = "x" + std::to_string(lives.size()), owner = "s" + std::to_string(span);
      stream.alloc(owner, storage, begin, life.bytes);
      if (!life.open) stream.free("s0", storage, end, life.bytes);
      lives.push_back(life);
    }
    ASSERT_TRUE(stream.end().ok());
    const SpanMemory memory = memory_of(stream, false);
    for (std::size_t s = 0; s < spans.size(); ++s) {
      const auto is_below = [&](std::size_t span) {
        int at = static_cast<int>(span);
        while (at > static_cast<int>(s)) at = spans[static_cast<std::size_t>(at)].parent;
        return at == static_cast<int>(s);
      };
      std::uint64_t live = 0, residual = 0;
      std::vector<std::tuple<std::uint64_t, int, std::uint64_t>> changes;
      bool any = false;
      for (const Life& life : lives) {
        if (!is_below(life.span)) continue;
        any = true;
        if (spans[s].end <= spans[s].begin) continue;
        if (life.begin >= spans[s].end || (!life.open && life.end <= spans[s].begin)) continue;
        if (life.begin <= spans[s].begin)
          live += life.bytes;
        else
          changes.push_back({life.begin, 1, life.bytes});
        if (!life.open && life.end < spans[s].end) changes.push_back({life.end, 0, life.bytes});
        if (life.open || life.end > spans[s].end) residual += life.bytes;
      }
      std::sort(changes.begin(), changes.end());
      std::uint64_t peak = live;
      for (const auto& [at, adds, bytes] : changes) {
        live = adds == 1 ? live + bytes : live - std::min(live, bytes);
        peak = std::max(peak, live);
      }
      const auto row = row_of(stream, memory, ("s" + std::to_string(s)).c_str());
      ASSERT_EQ(row.knows_subtree, any) << seed << " s" << s;
      ASSERT_EQ(row.peak_live_bytes, any ? peak : 0) << seed << " s" << s;
      ASSERT_EQ(row.residual_bytes, residual) << seed << " s" << s;
    }
  }
}

TEST(SelfTimes, AreWhatNoChildCoversWhateverTheOrder) {
  Stream stream;
  stream.begin().span("r", "", 0, 100, {.measured = true});
  for (const auto& [id, begin, length] : std::vector<std::tuple<const char*, int, int>>{
           {"a", 10, 10}, {"b", 40, 10}, {"c", 15, 30}, {"d", 90, 10}, {"e", 12, 2}}) {
    stream.span(id, "r", static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(length));
  }
  stream.op("r", "mm", 45, 10);
  ASSERT_TRUE(stream.end().ok());
  const TraceTables& tables = stream.evidence.tables();
  EXPECT_TRUE(stream.evidence.spans()[tables.spans.find("r")].cover.irregular);
  const SelfTimes self(stream.evidence.spans(), stream.evidence.ops());
  EXPECT_EQ(self[tables.spans.find("r")], 45u);
  EXPECT_EQ(self[tables.spans.find("e")], 2u);
}

// Edges of a stream as "from>to kind label" each.
std::vector<std::string> edges_of(Stream& stream, const GraphRecords& records) {
  TraceTables& tables = stream.evidence.tables();
  const GraphEdges edges(tables, stream.evidence.spans(), stream.evidence.ops(), records);
  std::vector<std::string> out;
  edges.for_each([&](const GraphEdge& edge) {
    out.push_back(node_id(tables, edge.from) + '>' + node_id(tables, edge.to) +
                  (edge.kind == format::Edge::Kind::kCall ? " call" : " data") +
                  (edge.label == kNoId ? "" : ' ' + std::string(tables.names.text(edge.label))));
  });
  return out;
}

format::Edge edge(format::Edge::Kind kind, const char* from, const char* to) {
  return {kind, from, to, kind == format::Edge::Kind::kCall ? std::uint64_t{10} : 0, {}};
}

TEST(GraphEdges, RecordedEdgesAllStayAndTakeThePlaceOfSynthesisedOnes) {
  Stream stream;
  stream.begin().span("r", "", 0, 100, {.measured = true}).span("a", "r", 10, 10);
  stream.span("o", "r", 30, 10, {.kind = format::SpanKind::kOp});
  GraphRecords records(stream.evidence.tables());
  for (int i = 0; i < 2; ++i) records.on_edge(edge(format::Edge::Kind::kCall, "r", "a"));
  format::Op op;
  op.span_id = "a";
  op.op_name = "mm";
  op.inputs = {"t2", "t2", "t10"};
  op.output = "t3";
  op.timestamp_ns = 10;
  op.dtype = op.device = "cpu";
  stream.evidence.on_op(op, {9, 9, 0});
  records.on_op(op);
  ASSERT_TRUE(stream.end().ok());
  EXPECT_EQ(
      edges_of(stream, records),
      (std::vector<std::string>{"a>a/op/0 call mm", "a/op/0>tensor/t3 data output", "r>a call", "r>a call",
                                "tensor/t10>a/op/0 data input", "tensor/t2>a/op/0 data input"}));
}

TEST(GraphRecords, ALabelledRecordNamesTheTensorAlsoWhenItComesLater) {
  TraceTables tables;
  GraphRecords records(tables);
  format::Tensor tensor;
  tensor.tensor_id = "t";
  tensor.span_id = "s";
  records.on_tensor(tensor);
  EXPECT_EQ(records.naming(0), 0u);
  for (const char* label : {"first", "second"}) {
    tensor.label = label;
    records.on_tensor(tensor);
  }
  EXPECT_EQ(records.naming(0), 1u);
  EXPECT_EQ(records.naming(7), GraphRecords::kNoRecord);
}

}  // namespace
}  // namespace tensortap::analyzers::candle
