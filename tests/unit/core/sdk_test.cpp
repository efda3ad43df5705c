// The SDK's table, called as tensortap.h calls it, inside an open window.
#include "probe/core/sdk.h"

#include <cmath>
#include <limits>
#include <thread>

#include "probe/core/evidence.h"
#include "probe/core/notes.h"
#include "tests/unit/core/capture_fixture.h"

namespace tensortap::probe::test {
namespace {

// The ABI: what was published stays where it is.
static_assert(offsetof(TensortapSdk, size) == 0 && offsetof(TensortapSdk, version) == 4);
static_assert(offsetof(TensortapSdk, capturing) == 8);
static_assert(offsetof(TensortapSdk, window) == 16);
static_assert(offsetof(TensortapSdk, range_begin) == 24);
static_assert(offsetof(TensortapSdk, range_end) == 32);
static_assert(offsetof(TensortapSdk, steps_by_job) == 40);
static_assert(offsetof(TensortapSdk, step_begin) == 48);
static_assert(offsetof(TensortapSdk, step_end) == 56);
static_assert(offsetof(TensortapSdk, label) == 64);
static_assert(offsetof(TensortapSdk, stats_tensor) == 72);
static_assert(offsetof(TensortapSdk, stats) == 80);
static_assert(offsetof(TensortapSdk, stats_values) == 88);
static_assert(offsetof(TensortapSdk, gradient) == 96);
static_assert(offsetof(TensortapSdk, gradient_tensor) == 104);
static_assert(offsetof(TensortapSdk, gradient_data) == 112);
static_assert(offsetof(TensortapSdk, tag) == 120);
static_assert(offsetof(TensortapSdk, identity) == 128);
static_assert(sizeof(TensortapSdk) == 136, "grown: add the new members above, change nothing before them");
static_assert(sizeof(TensortapIdentity) == 96 && offsetof(TensortapIdentity, physical_batch) == 8);
static_assert(offsetof(TensortapIdentity, device_state) == 88);
static_assert(sizeof(TensortapStats) == 56 && offsetof(TensortapStats, non_finite) == 24);

struct Evidence : Seen {
  std::vector<std::string> stats, gradients, tensors;
  std::vector<std::optional<double>> norms;
  double rms = -1, abs_max = -1, mean = -1;
  std::uint64_t non_finite = 0, elements = 0;
  std::vector<std::uint64_t> shape;

  void on_tensor_stats(const format::TensorStats& event, const format::Place&) override {
    stats.emplace_back(event.label);
    rms = event.rms, abs_max = event.abs_max, mean = event.mean;
    non_finite = event.non_finite, elements = event.elements;
    shape = event.shape;
  }
  void on_gradient(const format::Gradient& event, const format::Place&) override {
    static constexpr const char* kStates[] = {"present", "missing", "zero", "non_finite"};
    gradients.push_back(std::string(event.root) + "/" + std::string(event.key) + " " +
                        kStates[static_cast<int>(event.state)]);
    norms.push_back(event.norm);
  }
  void on_tensor(const format::Tensor& event, const format::Place&) override {
    tensors.push_back(std::string(event.label.value_or("?")) + " " + std::string(event.tensor_id));
  }
};

class SdkTest : public CaptureTest {
 protected:
  void SetUp() override {
    CaptureTest::SetUp();
    steps_are_by_job(false);
  }
  void TearDown() override { steps_are_by_job(false); }

  std::uint64_t range(std::string_view name, std::uint32_t flags = 0) {
    return sdk_.range_begin(name.data(), name.size(), flags);
  }
  int stats(const char* label, const void* data, std::uint32_t dtype,
            const std::vector<std::int64_t>& shape) {
    return sdk_.stats(label, std::strlen(label), data, dtype, shape.data(),
                      static_cast<std::uint32_t>(shape.size()));
  }
  int gradient(const char* key, std::uint32_t state, double norm) {
    return sdk_.gradient("model", 5, key, std::strlen(key), state, norm);
  }
  Evidence finished() {
    if (g_capturing.load()) window_end_ = close_window(capture_, 1000000000);
    Evidence seen;
    std::string text;
    Cursors cursors;
    while (drain_->collect(text, cursors)) {
    }
    std::string records;
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = text.substr(begin, end + 1 - begin);
      if (line.find("\"id\":\"s0.2\"") != std::string::npos) continue;  // a window that opened at a step
      (line.rfind("{\"kind\":\"note\"", 0) == 0 ? notes_ : records) += line;
    }
    read(records, seen);
    check_nesting(seen);
    return seen;
  }

  const TensortapSdk& sdk_ = *sdk_table();
  std::string notes_;
};

TEST_F(SdkTest, TheTableSaysItsSizeAndWhetherSomethingIsCaptured) {
  EXPECT_EQ(sdk_.size, sizeof(TensortapSdk));
  EXPECT_EQ(sdk_.version, TENSORTAP_SDK_VERSION);
  EXPECT_EQ(*sdk_.capturing, 1);
  EXPECT_EQ(*sdk_.window, 0u);
  close_window(capture_, 0);
  EXPECT_EQ(*sdk_.capturing, 0);
}

TEST_F(SdkTest, RangesNestAndEndInAnyOrder) {
  const std::uint64_t outer = range("outer");
  const std::uint64_t inner = range("inner", TENSORTAP_MEASURED_REGION);
  ASSERT_NE(outer, 0u);
  EXPECT_EQ(outer & inner & 1, 1u) << "no address is odd";
  op("aten::add");
  sdk_.range_end(outer);
  op("aten::mul");
  sdk_.range_end(inner);
  sdk_.range_end(inner);  // once more does nothing
  sdk_.range_end(12345);
  const Evidence seen = finished();
  ASSERT_EQ(seen.spans.size(), 2u);
  EXPECT_EQ(seen.span("inner")->parent, seen.span("outer")->id);
  EXPECT_NE(seen.span("inner")->ext.find(R"("measured_region":"inner")"), std::string::npos);
  EXPECT_EQ(seen.span("outer")->ext.find("measured_region"), std::string::npos);
  EXPECT_NE(seen.span("outer")->end_ext.find("end_ns"), std::string::npos);
  for (const auto& one : seen.operators) EXPECT_EQ(seen.name_of(one.span), "inner");
}

TEST_F(SdkTest, ARangeMayEndOnAnotherThread) {
  const std::uint64_t moved = range("moved");
  std::thread([&] {
    const std::uint64_t theirs = range("theirs");
    sdk_.range_end(moved);
    sdk_.range_end(theirs);
  }).join();
  sdk_.range_end(range("next"));
  const Evidence seen = finished();
  EXPECT_TRUE(seen.span("moved")->closed);
  EXPECT_EQ(seen.span("moved")->end_ext, "") << "closed by its end, not by the window's";
  EXPECT_EQ(seen.span("next")->parent, "s0.2");
  EXPECT_EQ(seen.span("theirs")->parent, "s0.2");
  EXPECT_EQ(capture_->orphans.waiting.load(), 0u);
}

TEST_F(SdkTest, ATokenOfACaptureThatIsOverEndsNothing) {
  const std::uint64_t old = range("old");
  finished();
  open(4 << 20);
  const std::uint64_t now = range("new");
  sdk_.range_end(old);
  op("aten::add");
  sdk_.range_end(now);
  const Evidence seen = finished();
  EXPECT_EQ(seen.spans.size(), 1u);
  EXPECT_EQ(seen.name_of(seen.operators[0].span), "new");
  EXPECT_EQ(capture_->orphans.waiting.load(), 0u);
}

TEST_F(SdkTest, ARangeBeyondTheStackIsLeftOutAndItsEndToo) {
  std::vector<std::uint64_t> tokens(kMaxFrames + 20);
  for (std::uint64_t& token : tokens) token = range("deep");
  EXPECT_EQ(tokens.back(), 0u);
  for (std::size_t i = tokens.size(); i-- > 0;) {
    if (tokens[i] != 0) sdk_.range_end(tokens[i]);
  }
  op("aten::after");
  const Evidence seen = finished();
  EXPECT_EQ(seen.spans.size(), kMaxFrames);
  EXPECT_EQ(seen.operators.back().span, "s0.2");
}

TEST_F(SdkTest, LongNamesAreCutAndEmptyOnesAreNone) {
  EXPECT_EQ(range(""), 0u);
  sdk_.range_end(range(std::string(10000, 'x')));
  const Evidence seen = finished();
  ASSERT_EQ(seen.spans.size(), 1u);
  EXPECT_EQ(seen.spans[0].name.size(), 4096u);
}

TEST_F(SdkTest, TheJobsOwnStepsTakeThePlaceOfInferredOnes) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
    note_zero_grad(this);
    call_module("net");
    sdk_.step_end();
    call_module("net");  // validation: no step of its own any more
  }
  ASSERT_EQ(sdk_.step_begin(500), 1);
  sdk_.step_end();
  ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
  sdk_.step_end();
  EXPECT_EQ(sdk_.step_begin(1ull << 32), 0);
  const Evidence seen = finished();
  std::vector<std::string> steps;
  for (const Seen::Span& span : seen.spans) {
    if (span.name.rfind("step-", 0) == 0) steps.push_back(span.name.substr(13));
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"0000", "0001", "0002", "0500", "0501"}));
  EXPECT_EQ(seen.span("net")->parent, seen.span("step-000000000000")->id);
  EXPECT_EQ(counter(format::Counter::kStepBordersSkipped), 1u);
}

TEST_F(SdkTest, AnInferredStepEndsWhereTheJobsFirstOneBegins) {
  note_zero_grad(this);
  op("aten::load");
  ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
  op("aten::train");
  sdk_.step_end();
  op("aten::later");
  const Evidence seen = finished();
  EXPECT_EQ(seen.name_of(seen.operators[0].span), "step-000000000000");
  EXPECT_EQ(seen.name_of(seen.operators[1].span), "step-000000000001");
  EXPECT_EQ(seen.operators[2].span, "s0.2");
}

TEST_F(SdkTest, OnceTheJobSaysSoNoStepIsInferred) {
  sdk_.steps_by_job();
  note_zero_grad(this);
  call_module("net");
  EXPECT_EQ(finished().span("step-000000000000"), nullptr);
}

TEST_F(SdkTest, StepsCountWhileNothingIsCaptured) {
  ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
  sdk_.step_end();
  finished();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 0);
    sdk_.step_end();
  }
  open(4 << 20);
  note_zero_grad(this);  // infers nothing: the job has marked steps before
  ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
  sdk_.step_end();
  const Evidence seen = finished();
  ASSERT_EQ(seen.spans.size(), 1u);
  EXPECT_EQ(seen.spans[0].name, "step-000000000004");
}

TEST_F(SdkTest, AStepThatCannotNestIsSkippedAndCounted) {
  begin_op("op", "aten::outer");
  EXPECT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 0);
  end("op");
  const std::uint64_t epoch = range("epoch");
  ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
  EXPECT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 0) << "inside a step";
  std::thread([&] {
    EXPECT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 0) << "another thread's is open";
  }).join();
  const std::uint64_t inside = range("inside");
  sdk_.step_end();  // waits for the range
  sdk_.range_end(inside);
  std::thread([&] {
    EXPECT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1) << "none is open";
    sdk_.step_end();
  }).join();
  sdk_.range_end(epoch);
  const Evidence seen = finished();
  EXPECT_EQ(seen.span("step-000000000000")->parent, seen.span("epoch")->id);
  EXPECT_TRUE(seen.span("step-000000000000")->end_ext.empty());
  EXPECT_EQ(seen.span("step-000000000001")->parent, "s0.2");
  EXPECT_EQ(counter(format::Counter::kStepBordersSkipped), 3u);
}

TEST_F(SdkTest, StatisticsAreReductionsOverAllElements) {
  const std::vector<float> values = {1, -2, 3, -4, 0, 0.5f};
  EXPECT_EQ(stats("x", values.data(), TENSORTAP_F32, {2, 3}), 1);
  const Evidence seen = finished();
  ASSERT_EQ(seen.stats, std::vector<std::string>{"x"});
  EXPECT_EQ(seen.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(seen.elements, 6u);
  EXPECT_EQ(seen.non_finite, 0u);
  EXPECT_DOUBLE_EQ(seen.rms, std::sqrt(30.25 / 6));
  EXPECT_DOUBLE_EQ(seen.abs_max, 4);
  EXPECT_DOUBLE_EQ(seen.mean, -1.5 / 6);
}

TEST_F(SdkTest, NonFiniteElementsAreCountedAndTheNumbersAreZero) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1, nan, inf, -inf};
  EXPECT_EQ(stats("bad", values.data(), TENSORTAP_F64, {4}), 1);
  const Evidence seen = finished();
  EXPECT_EQ(seen.non_finite, 3u);
  EXPECT_EQ(seen.rms + seen.abs_max + seen.mean, 0.0);
}

TEST_F(SdkTest, StatisticsThatTraceTenWouldRefuseAreNotTaken) {
  const float one = 1;
  EXPECT_EQ(stats(" ", &one, TENSORTAP_F32, {1}), 0);
  EXPECT_EQ(stats("x", &one, TENSORTAP_F32, {-1}), 0);
  EXPECT_EQ(stats("x", &one, 8 /* complex */, {1}), 0);
  EXPECT_EQ(stats("x", nullptr, TENSORTAP_F32, {1}), 0);
  EXPECT_EQ(stats("x", &one, TENSORTAP_F32, std::vector<std::int64_t>(65, 1)), 0);
  EXPECT_EQ(stats("x", &one, TENSORTAP_F32, {1ll << 40, 1ll << 40, 0}), 0);
  EXPECT_EQ(stats("none", nullptr, TENSORTAP_F32, {0, 5}), 1);
  EXPECT_EQ(stats("scalar", &one, TENSORTAP_F32, {}), 1);
  TensortapStats own{};
  own.size = sizeof own;
  own.dtype = TENSORTAP_BF16;
  own.rms = 2;
  own.abs_max = 3;
  own.mean = -1;
  EXPECT_EQ(sdk_.stats_values("own", 3, &own), 1);
  own.non_finite = 2;
  EXPECT_EQ(sdk_.stats_values("own", 3, &own), 0);
  own.non_finite = 0;
  own.rms = -1;
  EXPECT_EQ(sdk_.stats_values("own", 3, &own), 0);
  const Evidence seen = finished();
  EXPECT_EQ(seen.stats, (std::vector<std::string>{"none", "scalar", "own"}));
  EXPECT_EQ(seen.mean, -1);
}

template <class T>
void expect_reduced(std::uint8_t dtype, const std::vector<T>& bits, double abs_max, double mean) {
  Reductions found;
  ASSERT_TRUE(reduce_values(bits.data(), dtype, bits.size(), found));
  EXPECT_DOUBLE_EQ(found.abs_max, abs_max) << int{dtype};
  EXPECT_DOUBLE_EQ(found.mean, mean) << int{dtype};
}

TEST(TensorValues, EveryTypeOfNumberIsRead) {
  expect_reduced<std::uint8_t>(TENSORTAP_U8, {255, 1}, 255, 128);
  expect_reduced<std::int8_t>(TENSORTAP_I8, {-128, 0}, 128, -64);
  expect_reduced<std::int16_t>(TENSORTAP_I16, {-300, 100}, 300, -100);
  expect_reduced<std::int32_t>(TENSORTAP_I32, {1 << 30, 0}, 1 << 30, 1 << 29);
  expect_reduced<std::int64_t>(TENSORTAP_I64, {-(1ll << 40), 0}, double(1ll << 40), -double(1ll << 39));
  expect_reduced<std::uint16_t>(TENSORTAP_U16, {65535, 1}, 65535, 32768);
  expect_reduced<std::uint32_t>(TENSORTAP_U32, {0x80000000u, 0}, 0x1p31, 0x1p30);
  expect_reduced<std::uint64_t>(TENSORTAP_U64, {1ull << 63, 0}, 0x1p63, 0x1p62);
  expect_reduced<std::uint8_t>(TENSORTAP_BOOL, {1, 0, 1, 0}, 1, 0.5);
  // 1, -2, the greatest finite number, the least one above zero
  expect_reduced<std::uint16_t>(TENSORTAP_F16, {0x3C00, 0xC000}, 2, -0.5);
  expect_reduced<std::uint16_t>(TENSORTAP_F16, {0x7BFF}, 65504, 65504);
  expect_reduced<std::uint16_t>(TENSORTAP_F16, {0x8001}, 0x1p-24, -0x1p-24);
  expect_reduced<std::uint16_t>(TENSORTAP_BF16, {0x3F80, 0xC000}, 2, -0.5);
  Reductions found;
  for (const std::uint16_t infinite : {0x7C00, 0xFC00, 0x7E00}) {
    ASSERT_TRUE(reduce_values(&infinite, TENSORTAP_F16, 1, found));
    EXPECT_EQ(found.non_finite, 1u) << infinite;
  }
  EXPECT_FALSE(reduce_values(&found, 9, 1, found));
}

TEST(TensorValues, AMillionSmallNumbersDoNotDriftAway) {
  const std::vector<float> values(1000003, 0.1f);
  Reductions found;
  ASSERT_TRUE(reduce_values(values.data(), TENSORTAP_F32, values.size(), found));
  EXPECT_NEAR(found.mean, double{0.1f}, 1e-15);
  EXPECT_NEAR(found.rms, double{0.1f}, 1e-15);
}

TEST_F(SdkTest, AGradientsStateFollowsItsNorm) {
  EXPECT_EQ(gradient("a", TENSORTAP_GRADIENT_PRESENT, 0.5), 1);
  EXPECT_EQ(gradient("b", TENSORTAP_GRADIENT_PRESENT, 0.0), 1);
  EXPECT_EQ(gradient("c", TENSORTAP_GRADIENT_PRESENT, std::numeric_limits<double>::infinity()), 1);
  EXPECT_EQ(gradient("d", TENSORTAP_GRADIENT_MISSING, 7.0), 1);
  EXPECT_EQ(gradient("e", TENSORTAP_GRADIENT_ZERO, 7.0), 1);
  EXPECT_EQ(gradient("f", 9, 1.0), 0);
  EXPECT_EQ(gradient(" ", TENSORTAP_GRADIENT_MISSING, 0), 0);
  const float elements[] = {3, -4};
  EXPECT_EQ(sdk_.gradient_data("model", 5, "g", 1, elements, TENSORTAP_F32, 2), 1);
  const Evidence seen = finished();
  EXPECT_EQ(seen.gradients, (std::vector<std::string>{"model/a present", "model/b zero", "model/c non_finite",
                                                      "model/d missing", "model/e zero", "model/g present"}));
  EXPECT_EQ(seen.norms, (std::vector<std::optional<double>>{0.5, 0.0, {}, {}, 0.0, 5.0}));
}

// A tensor as the backend would show it: `impl` is one of these.
struct FakeTensor {
  std::vector<std::int64_t> dims;
  const float* data;
};
bool fake_facts(CaptureState&, const void* impl, TensorFacts& facts) noexcept {
  const auto& tensor = *static_cast<const FakeTensor*>(impl);
  facts.id = 77;
  facts.dims = tensor.dims.data();
  facts.ndim = static_cast<std::uint8_t>(tensor.dims.size());
  facts.dtype = TENSORTAP_F32;
  return true;
}
bool fake_elements(const void* impl, HostElements& elements) noexcept {
  const auto& tensor = *static_cast<const FakeTensor*>(impl);
  elements = {tensor.data, 2, TENSORTAP_F32};
  return tensor.data != nullptr;
}

TEST_F(SdkTest, TensorsAreReadWhereTheBackendSaysThatTheyMayBe) {
  const float elements[] = {3, -4};
  const FakeTensor host = {{2}, elements}, device = {{2}, nullptr};
  EXPECT_EQ(sdk_.stats_tensor(&host, "x", 1), TENSORTAP_NOT_HOST) << "no backend";
  EXPECT_EQ(sdk_.label(&host, "x", 1, TENSORTAP_ACTIVATION), 0);
  set_tensor_access({fake_facts, fake_elements});
  EXPECT_EQ(sdk_.label(&device, "x", 1, TENSORTAP_ACTIVATION), 1);
  EXPECT_EQ(sdk_.label(&device, "x", 1, 5), 0);
  EXPECT_EQ(sdk_.stats_tensor(&host, "x", 1), 1);
  EXPECT_EQ(sdk_.stats_tensor(&device, "y", 1), TENSORTAP_NOT_HOST);
  EXPECT_EQ(sdk_.gradient_tensor("m", 1, "w", 1, &host), 1);
  EXPECT_EQ(sdk_.gradient_tensor("m", 1, "w", 1, &device), TENSORTAP_NOT_HOST);
  EXPECT_EQ(sdk_.gradient_tensor("m", 1, "b", 1, nullptr), 1);
  set_tensor_access({});
  const Evidence seen = finished();
  EXPECT_EQ(seen.tensors, std::vector<std::string>{"x t77"});
  EXPECT_EQ(seen.stats, std::vector<std::string>{"x"});
  EXPECT_DOUBLE_EQ(seen.mean, -0.5);
  EXPECT_EQ(seen.gradients, (std::vector<std::string>{"m/w present", "m/b missing"}));
}

TensortapIdentity identity() {
  TensortapIdentity one{};
  one.size = sizeof one;
  one.physical_batch = 8;
  one.accumulation_steps = 1;
  one.workload_id = one.model_id = one.config_id = one.data_id = "a \"b\"";
  one.seed_policy = one.precision = one.device_state = "c";
  return one;
}

TEST_F(SdkTest, TagsAreWrittenAndKeptForTheNextCapture) {
  EXPECT_EQ(sdk_.tag("commit", 6, "39db95d", 7), 1);
  EXPECT_EQ(sdk_.tag(" ", 1, "x", 1), 0);
  EXPECT_EQ(sdk_.tag("k", 1, std::string(1025, 'x').data(), 1025), 0);
  TensortapIdentity one = identity();
  EXPECT_EQ(sdk_.identity(&one), 1);
  one.physical_batch = 0;
  EXPECT_EQ(sdk_.identity(&one), 0);
  one.physical_batch = 1;
  one.precision = "  ";
  EXPECT_EQ(sdk_.identity(&one), 0);
  finished();
  EXPECT_EQ(notes_,
            R"({"kind":"note","tags":{"commit":"39db95d"}})"
            "\n"
            R"({"kind":"note","comparison_identity":{"physical_batch":8,"accumulation_steps":1,)"
            R"("workload_id":"a \"b\"","model_id":"a \"b\"","config_id":"a \"b\"","data_id":"a \"b\"",)"
            R"("seed_policy":"c","precision":"c","device_state":"c"}})"
            "\n");
  EXPECT_EQ(sdk_.tag("commit", 6, "later", 5), 1) << "no window is open: it is kept";
  std::string kept;
  append_notes(kept);
  EXPECT_EQ(kept.rfind(R"({"kind":"note","tags":{"commit":"later"}})", 0), 0u) << kept;
}

TEST_F(SdkTest, AJobMaySaySoManyTagsAndNoMore) {
  int taken = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key-" + std::to_string(i);
    taken += sdk_.tag(key.data(), key.size(), "v", 1);
  }
  EXPECT_GT(taken, 0);
  EXPECT_LE(taken, static_cast<int>(kMaxNotes));
  EXPECT_EQ(sdk_.tag("key-0", 5, "w", 1), 1) << "an old key may still change";
}

TEST_F(SdkTest, ACaptureThatWaitsForItsFirstStepFollowsRangesAndOpensAtTheJobsStep) {
  close_window(capture_, 0);
  step_passes_by_job(7);  // while nothing is captured
  steps_continue(capture_->steps);
  EXPECT_EQ(capture_->steps.number.load(), 8u);
  capture_->plan.opens = true;
  capture_->plan.first = 9;
  arm_capture(capture_);
  EXPECT_EQ(*sdk_.window, std::numeric_limits<std::uint64_t>::max());
  const std::uint64_t epoch = range("epoch");
  const float one = 1;
  EXPECT_EQ(stats("early", &one, TENSORTAP_F32, {}), 0);
  EXPECT_EQ(gradient("early", TENSORTAP_GRADIENT_MISSING, 0), 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 1);
    stats("inside", &one, TENSORTAP_F32, {});
    sdk_.step_end();
  }
  sdk_.range_end(epoch);
  EXPECT_NE(*sdk_.window, std::numeric_limits<std::uint64_t>::max());
  const Evidence seen = finished();
  EXPECT_EQ(seen.stats.size(), 1u);
  EXPECT_NE(seen.span("step-000000000009"), nullptr);
  EXPECT_EQ(seen.span("step-000000000008"), nullptr);
  EXPECT_EQ(seen.span("epoch"), nullptr) << "it began before the window";
}

TEST_F(SdkTest, NothingIsWrittenAfterTheWindow) {
  const std::uint64_t open_range = range("open");
  window_end_ = close_window(capture_, 0);
  EXPECT_EQ(range("late"), 0u);
  sdk_.range_end(open_range);
  const float one = 1;
  EXPECT_EQ(stats("x", &one, TENSORTAP_F32, {}), 0);
  EXPECT_EQ(gradient("a", TENSORTAP_GRADIENT_MISSING, 0), 0);
  EXPECT_EQ(sdk_.step_begin(TENSORTAP_NEXT_STEP), 0);
  sdk_.step_end();
  const Evidence seen = finished();
  EXPECT_EQ(seen.spans.size(), 1u);
  EXPECT_TRUE(seen.stats.empty() && seen.gradients.empty());
}

TEST_F(SdkTest, ThreadsThatCallEverythingAtOnceLeaveAWholeStream) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const float values[] = {1, 2};
      for (int i = 0; i < 500; ++i) {
        const std::uint64_t outer = range("outer");
        if (sdk_.step_begin(TENSORTAP_NEXT_STEP) != 0) {
          op("aten::add");
          sdk_.step_end();
        }
        stats("x", values, TENSORTAP_F32, {2});
        gradient("w", TENSORTAP_GRADIENT_PRESENT, 1.0 + t);
        sdk_.range_end(outer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Evidence seen = finished();
  EXPECT_EQ(seen.stats.size(), 2000u);
  EXPECT_EQ(seen.gradients.size(), 2000u);
  for (const Seen::Span& span : seen.spans) EXPECT_TRUE(span.closed) << span.name;
}

}  // namespace
}  // namespace tensortap::probe::test
