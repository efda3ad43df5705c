#include <thread>

#include "tests/unit/core/capture_fixture.h"

namespace tensortap::probe::test {
namespace {

bool grad_is_on() noexcept { return true; }
bool grad_is_off() noexcept { return false; }

class StepsTest : public CaptureTest {
 protected:
  void SetUp() override {
    CaptureTest::SetUp();
    g_grad_enabled = grad_is_on;
  }
  void train_step() {
    note_zero_grad(&optimizer_);
    call_module("net");
    phase_enter(intern("backward"), format::StepCode::kBackward, &engine_);
    op("aten::mm");
    phase_leave(&engine_);
    phase_enter(intern("Optimizer.step#SGD.step"), format::StepCode::kOptimizer, &optimizer_);
    op("aten::add_");
    phase_leave(&optimizer_);
  }
  static int steps_of(const Seen& seen, bool cut) {
    int count = 0;
    for (const Seen::Span& span : seen.spans) {
      if (span.name.rfind("step-", 0) == 0 && (span.end_ext.find("cut") != std::string::npos) == cut) ++count;
    }
    return count;
  }
  int optimizer_ = 0, other_optimizer_ = 0, engine_ = 0;
};

TEST_F(CaptureTest, LeafOperatorIsChargedToTheWindow) {
  op("aten::add");
  const Seen seen = finish();
  ASSERT_EQ(seen.operators.size(), 1u);
  EXPECT_EQ(seen.operators[0].span, "s0.2");
  EXPECT_TRUE(seen.spans.empty());
}

TEST_F(CaptureTest, OperatorWithChildBecomesSpanWithItsOwnRecord) {
  begin_op("outer", "aten::linear");
  op("aten::addmm");
  end("outer");
  const Seen seen = finish();
  ASSERT_EQ(seen.spans.size(), 1u);
  EXPECT_EQ(seen.spans[0].kind, format::SpanKind::kOp);
  ASSERT_EQ(seen.operators.size(), 2u);
  EXPECT_EQ(seen.operators[0].name, "aten::addmm");
  EXPECT_EQ(seen.operators[1].name, "aten::linear");
  for (const auto& one : seen.operators) EXPECT_EQ(one.span, seen.spans[0].id);
  EXPECT_EQ(seen.operators[1].duration_ns, seen.spans[0].duration_ns);
}

TEST_F(CaptureTest, EndOutOfOrderIsHeldUntilDescendantsEnded) {
  begin_range("outer", "outer");
  begin_range("inner", "inner");
  end("outer");
  op("aten::add");
  end("inner");
  const Seen seen = finish();
  EXPECT_NE(seen.span("outer")->end_ext.find("end_ns"), std::string::npos);
  EXPECT_TRUE(seen.span("outer")->closed);
  EXPECT_EQ(seen.name_of(seen.operators[0].span), "inner");
}

TEST_F(CaptureTest, OpenSpansAreCutAtTheWindowsEndAndLeavesNotWritten) {
  begin_range("range", "epoch");
  begin_op("outer", "aten::linear");
  begin_op("leaf", "aten::addmm");
  const Seen seen = finish();
  EXPECT_TRUE(seen.operators.empty());
  EXPECT_EQ(seen.span("epoch")->end_ext, R"({"cut":"stop"})");
  EXPECT_EQ(seen.span("aten::linear")->end_ext, R"({"cut":"stop"})");
  EXPECT_EQ(counter(format::Counter::kCutAtStop), 1u);
  EXPECT_EQ(counter(format::Counter::kOpenAtStop), 2u);
}

TEST_F(CaptureTest, NothingIsWrittenAfterTheWindow) {
  window_end_ = close_window(capture_, 0);
  module_enter({"m", 0, 0, 0, nullptr, format::kStrNone});
  note_alloc(this, 64, 0, -1);
  EXPECT_FALSE(static_cast<bool>(Callback()));
  const Seen seen = finish();
  EXPECT_TRUE(seen.spans.empty() && seen.operators.empty() && seen.memory.empty());
}

TEST_F(CaptureTest, ThreadsHaveRingsOfTheirOwnAndHangUnderTheWindow) {
  begin_range("main", "main");
  std::thread other([this] {
    begin_range("theirs", "theirs");
    op("aten::mul");
    end("theirs");
  });
  other.join();
  end("main");
  const Seen seen = finish();
  EXPECT_EQ(seen.span("theirs")->parent, "s0.2");
  EXPECT_NE(seen.span("theirs")->ext.find(R"("thread":2)"), std::string::npos);
}

TEST_F(CaptureTest, ThreadThatEndsLeavesNoSpanOpen) {
  std::thread([this] { begin_range("abandoned", "abandoned"); }).join();
  const Seen seen = finish();
  EXPECT_EQ(seen.span("abandoned")->end_ext, R"({"cut":"thread_end"})");
}

TEST_F(CaptureTest, RingOfAnEndedThreadIsUsedAgain) {
  for (int i = 0; i < 50; ++i) {
    std::thread([this] { op("aten::add"); }).join();
    std::string text;
    Cursors cursors;
    while (drain_->collect(text, cursors)) drain_->release(cursors);
  }
  EXPECT_LE(capture_->memory.header->rings_used.load(), 3u);
}

TEST_F(CaptureTest, DepthBeyondTheStackIsCountedAndComesBack) {
  std::vector<int> keys(kMaxFrames + 50);
  for (int& key : keys) begin_op(&key, "aten::deep");
  for (std::size_t i = keys.size(); i-- > 0;) end(&keys[i]);
  op("aten::after");
  const Seen seen = finish();
  EXPECT_EQ(seen.operators.back().name, "aten::after");
  EXPECT_EQ(seen.operators.back().span, "s0.2");
  EXPECT_EQ(capture_->memory.rings[1].dropped[static_cast<int>(format::DropCause::kDepth)].load(), 50u);
}

TEST_F(CaptureTest, FreeOfABlockFromBeforeTheWindowIsCountedNotWritten) {
  int old_block = 0, new_block = 0;
  note_free(&old_block, 0, -1);
  note_alloc(&new_block, 64, 0, -1);
  note_free(&new_block, 0, -1);
  note_alloc(&new_block, 128, 0, -1);  // the address comes again: another storage
  const Seen seen = finish();
  ASSERT_EQ(seen.memory.size(), 3u);
  EXPECT_EQ(seen.memory[0].first, seen.memory[1].first);
  EXPECT_NE(seen.memory[0].first, seen.memory[2].first);
  EXPECT_EQ(counter(format::Counter::kFreesOfUnseenBlocks), 1u);
}

// Where the room ends: in the pool (16 segments), or in the ring's own table with room in the pool.
class FullRingTest : public CaptureTest, public ::testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(PoolBytes, FullRingTest, ::testing::Values(0, 64 << 20));

TEST_P(FullRingTest, DropsRecordsButNeverOneEndOfASpan) {
  open(GetParam());
  std::vector<int> keys(100);
  const int rounds = GetParam() == 0 ? 400 : 2000;
  for (int round = 0; round < rounds; ++round) {
    for (int& key : keys) begin_range(&key, "range");
    for (std::size_t i = keys.size(); i-- > 0;) {
      op("aten::add");
      end(&keys[i]);
    }
  }
  const Seen seen = finish();
  EXPECT_GT(seen.spans.size(), 1000u);
  for (const Seen::Span& span : seen.spans) EXPECT_TRUE(span.closed);
  const format::RingHeader& ring = capture_->memory.rings[1];
  const std::uint64_t dropped = ring.dropped[static_cast<int>(format::DropCause::kRingFull)].load();
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(ring.offered.load(), ring.stored.load() + dropped);
}

TEST_F(StepsTest, TrainingLoopGivesOneStepPerOptimizerStep) {
  for (int i = 0; i < 5; ++i) train_step();
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 5);
  EXPECT_EQ(steps_of(seen, true), 0);
  EXPECT_EQ(seen.name_of(seen.span("net")->parent), "step-000000000000");
  EXPECT_EQ(seen.span("net")->step, format::Step::kForward);
  EXPECT_EQ(seen.name_of(seen.span("backward")->parent), "step-000000000000");
  EXPECT_NE(seen.span("step-000000000004")->ext.find(R"("step_number":4)"), std::string::npos);
}

TEST_F(StepsTest, SetUpBeforeTheFirstStepIsNotPartOfIt) {
  op("aten::uniform_");
  train_step();
  const Seen seen = finish();
  EXPECT_EQ(seen.operators[0].span, "s0.2");
}

TEST_F(StepsTest, OperatorAfterAStepBeginsTheNext) {
  train_step();
  op("aten::item");
  train_step();
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 2);
  for (const auto& one : seen.operators) {
    if (one.name == "aten::item") {
      EXPECT_EQ(seen.name_of(one.span), "step-000000000001");
    }
  }
}

TEST_F(StepsTest, StepWaitsForRangesOpenedInsideIt) {
  note_zero_grad(&optimizer_);
  begin_range("body", "body");
  call_module("net");
  phase_enter(intern("Optimizer.step"), format::StepCode::kOptimizer, &optimizer_);
  phase_leave(&optimizer_);
  op("aten::late");
  end("body");
  op("aten::next");
  const Seen seen = finish();
  for (const auto& one : seen.operators) {
    if (one.name == "aten::late") {
      EXPECT_EQ(seen.name_of(one.span), "body");
    }
    if (one.name == "aten::next") {
      EXPECT_EQ(seen.name_of(one.span), "step-000000000001");
    }
  }
  EXPECT_EQ(seen.name_of(seen.span("body")->parent), "step-000000000000");
}

TEST_F(StepsTest, OfSeveralOptimizersTheFirstOneMakesTheBorders) {
  for (int i = 0; i < 3; ++i) {
    train_step();
    phase_enter(intern("Optimizer.step#Adam.step"), format::StepCode::kOptimizer, &other_optimizer_);
    phase_leave(&other_optimizer_);
  }
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 3);
}

TEST_F(StepsTest, InferenceWithoutGradientsGivesOneStepPerRootCall) {
  g_grad_enabled = grad_is_off;
  for (std::uint32_t i = 0; i < 4; ++i) call_module("net", i);
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 4);
  EXPECT_EQ(steps_of(seen, true), 0);
}

TEST_F(StepsTest, InferenceWithGradientsOnStillSplitsAtTheRootsNextCall) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    call_module("net", i);
    op("aten::argmax");
  }
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 2);
  EXPECT_EQ(steps_of(seen, true), 1);  // the last one: nothing said that it was over
}

TEST_F(StepsTest, AccumulatedGradientsAreOneStep) {
  note_zero_grad(&optimizer_);
  for (std::uint32_t i = 0; i < 4; ++i) {
    call_module("net", i);
    phase_enter(intern("backward"), format::StepCode::kBackward, &engine_);
    phase_leave(&engine_);
  }
  phase_enter(intern("Optimizer.step"), format::StepCode::kOptimizer, &optimizer_);
  phase_leave(&optimizer_);
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 1);
}

TEST_F(StepsTest, AnotherThreadDrivesWhenTheDriverEnded) {
  std::thread([this] {
    train_step();
    op("aten::item");  // opens the next step, which the thread's end cuts
  }).join();
  train_step();
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 2);
  EXPECT_EQ(steps_of(seen, true), 1);
  EXPECT_TRUE(seen.span("step-000000000002")->closed);
}

TEST_F(StepsTest, BorderInsideAnOperatorIsSkippedAndCounted) {
  begin_op("outer", "custom::op");
  note_zero_grad(&optimizer_);
  end("outer");
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false) + steps_of(seen, true), 0);
  EXPECT_EQ(counter(format::Counter::kStepBordersSkipped), 1u);
}

TEST_F(StepsTest, UnseenRootIsInferredFromItsChildren) {
  const int root = 0;
  const auto child = [&](const char* path, std::uint32_t index) {
    module_enter({path, intern(path), intern("Linear"), index, &root, intern("Net")});
    op("aten::addmm");
    module_leave(path);
  };
  g_grad_enabled = grad_is_off;
  for (std::uint32_t i = 0; i < 3; ++i) {
    child("fc1", i);
    op("aten::relu");
    child("fc2", i);
  }
  g_grad_enabled = grad_is_on;  // the guard of the loop is gone when the job ends
  const Seen seen = finish();
  EXPECT_EQ(steps_of(seen, false), 3);
  int roots = 0;
  for (const Seen::Span& span : seen.spans) {
    if (span.name != "Net") continue;
    ++roots;
    EXPECT_NE(span.ext.find(R"("inferred":true)"), std::string::npos);
    EXPECT_EQ(span.step, format::Step::kForward);
  }
  EXPECT_EQ(roots, 3);
  for (const auto& one : seen.operators) {
    if (one.name == "aten::relu") {
      EXPECT_EQ(seen.name_of(one.span), "Net");
    }
  }
}

}  // namespace
}  // namespace tensortap::probe::test
