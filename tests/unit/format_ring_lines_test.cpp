#include "format/ring_lines.h"

#include <gtest/gtest.h>

#include <string>

#include "format/line_reader.h"
#include "tests/support/event_log.h"
#include "tests/support/ring_samples.h"

namespace tensortap::format {
namespace {

std::string rendered(const RingSamples& samples, std::uint64_t* replaced = nullptr) {
  std::string out;
  RecordRenderer renderer(out);
  for (const std::string& record : samples.records) {
    EXPECT_TRUE(renderer.append(bytes_of(record), record.size(), 1, samples.table()));
  }
  if (replaced != nullptr) *replaced = renderer.replaced_bytes();
  return out;
}

TEST(RingLines, EveryTypeOfRecordBecomesLinesThatTheReaderReads) {
  const std::string lines = rendered(ring_samples());
  LineReader reader;
  EventLog log;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const Status status = reader.read(lines.substr(begin, end - begin), Place{}, log);
    ASSERT_TRUE(status.ok()) << status.error().message << "\n" << lines.substr(begin, end - begin);
  }
  EXPECT_EQ(begin, lines.size());
  EXPECT_EQ(log.lines, lines);
}

TEST(RingLines, BytesThatAreNotUtf8AreCountedWhereverTheyStand) {
  std::uint64_t replaced = 0;
  const std::string lines = rendered(ring_samples(), &replaced);
  std::uint64_t marks = 0;
  for (std::size_t at = 0; (at = lines.find("\xEF\xBF\xBD", at)) != std::string::npos; at += 3) ++marks;
  EXPECT_EQ(replaced, marks);
  EXPECT_EQ(replaced, 5u);  // a span's name, an operator's in its two lines, an argument's text, a label
}

TEST(RingLines, ARecordThatIsCutAnywhereIsRefusedAndWritesNothing) {
  const RingSamples samples = ring_samples();
  for (const std::string& record : samples.records) {
    for (std::size_t cut = 0; cut < record.size(); ++cut) {
      // Behind these bytes lies nothing: a read beyond them is seen by AddressSanitizer.
      const std::vector<unsigned char> bytes(bytes_of(record), bytes_of(record) + cut);
      std::string out;
      EXPECT_FALSE(append_record_lines(out, bytes.data(), cut, 1, samples.table()));
      EXPECT_TRUE(out.empty());
    }
  }
}

TEST(RingLines, AModuleCallBringsItsFactsItsArgumentsAndItsResult) {
  const RingSamples samples = ring_samples();
  std::string out;
  RecordRenderer renderer(out);
  for (const std::string& record : samples.records) {
    ASSERT_TRUE(renderer.append(bytes_of(record), record.size(), 1, samples.table()));
  }
  const auto contains = [&](const char* text) { return out.find(text) != std::string::npos; };
  EXPECT_TRUE(
      contains(R"("module":7,"training":true,"grad_mode":false,"inference_mode":true,"autocast":true,)"
               R"("class":"torch.nn.modules.conv.Conv2d","exact":true,"config":{"bias":true,)"
               R"("padding_mode":"zeros","stride":[2,3],"eps":0.5,)"
               R"("act":{"object":"torch.nn.functional.relu"},"scale":[1.5]})"))
      << out;
  EXPECT_TRUE(
      contains(R"("items":[{"key":"x","key_type":"str","value":{"kind":"list","items":[{"kind":"none"},)"
               R"({"kind":"scalar","type":"int"}]}}]}],"kwargs":{"mask":{"kind":"nested_tensor","id":"t2")"))
      << out;
  EXPECT_TRUE(
      contains(R"("failed":true,"output_cut":true,"output":{"kind":"tensor","id":"t3","storage":"m1003",)"
               R"("shape":[4],"dtype":"f32","device":"cuda:0","requires_grad":false,"layout":"sparse"})"))
      << out;
}

TEST(RingLines, ALineRecordWithoutItsLineFeedIsRefused) {
  RingSampler sampler;
  sampler.add(LineRecord{{}, 2, 0}, RecordType::kLine, "{}");
  sampler.add(LineRecord{{}, 0, 0}, RecordType::kLine);
  for (const std::string& record : sampler.samples.records) {
    std::string out;
    EXPECT_FALSE(append_record_lines(out, bytes_of(record), record.size(), 0, sampler.samples.table()));
  }
}

// The lines of the samples' records of one kind, without their LF.
std::vector<std::string> lines_of(const std::string& kind) {
  const std::string all = rendered(ring_samples());
  std::vector<std::string> found;
  for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = all.substr(begin, end - begin);
    if (line.rfind("{\"kind\":\"" + kind + "\"", 0) == 0) found.push_back(line);
  }
  return found;
}

TEST(RingLines, AGradientHasItsNumberItsNormAndItsPlace) {
  const std::vector<std::string> lines = lines_of("gradient");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            R"({"kind":"gradient","event_id":"g1.9","root":"aten::convolution","key":"block.0.weight",)"
            R"("state":"present","norm":0.125,"ext":{"thread":1,"time_ns":1012,"span":"s1.3"}})");
  EXPECT_EQ(lines[1],
            R"({"kind":"gradient","event_id":"g1.10","root":"aten::convolution","key":"block.0.bias",)"
            R"("state":"missing","ext":{"thread":1,"time_ns":1013,"span":"s1.3"}})");
}

TEST(RingLines, AReductionThatIsNotFiniteIsWrittenAsZero) {
  const std::vector<std::string> lines = lines_of("tensor_stats");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      lines[0],
      R"({"kind":"tensor_stats","span_id":"s1.3","label":"aten::convolution","shape":[4,8],"dtype":"f32",)"
      R"("elements":32,"non_finite":1,"rms":0.5,"abs_max":0.0,"mean":-0.25,)"
      R"("ext":{"thread":1,"time_ns":1011,"tensor":"t6","device":"cuda:0"}})");
}

TEST(RingLines, ALabelledTensorBringsItsCategoryAndMembersOfExt) {
  const std::vector<std::string> lines = lines_of("tensor");
  ASSERT_EQ(lines.size(), 2u);  // the first is an operator's further output: neither label nor category
  EXPECT_EQ(lines[0].find("label"), std::string::npos);
  EXPECT_EQ(
      lines[1],
      R"({"kind":"tensor","span_id":"s1.3","tensor_id":"t6","label":"block.0 )"
      "\xEF\xBF\xBD"
      R"(","shape":[4,8],"dtype":"f32","device":"cuda:0","requires_grad":true,"dense_bytes":128,)"
      R"("category":"parameter","ext":{"thread":1,"time_ns":1010,"storage":"m1006","source":"sdk","index":2}})");
}

// A record that breaks a rule of trace/10 is refused, whatever the producer thought.
template <class Record>
bool refused(Record record, RecordType type, const ValueBytes& behind) {
  RingSampler sampler;
  sampler.add(record, type, behind.bytes);
  std::string out;
  const std::string& bytes = sampler.samples.records[0];
  return !append_record_lines(out, bytes_of(bytes), bytes.size(), 1, sampler.samples.table()) && out.empty();
}

TEST(RingLines, EvidenceThatTraceTenWouldRefuseIsNotWritten) {
  const auto text = [](std::string_view word) { return ValueBytes().inline_text(word).align(); };
  TensorStatsRecord stats{};
  stats.label = kStrInline;
  EXPECT_FALSE(refused(stats, RecordType::kTensorStats, text("x")));
  EXPECT_TRUE(refused(stats, RecordType::kTensorStats, text(" \xE2\x80\x83")));
  stats.non_finite = 2;  // of one element
  EXPECT_TRUE(refused(stats, RecordType::kTensorStats, text("x")));
  stats.non_finite = 0;
  stats.ndim = 2;
  EXPECT_FALSE(refused(stats, RecordType::kTensorStats,
                       text("x").raw(std::int64_t{1} << 40).raw(std::int64_t{1} << 20)));
  EXPECT_TRUE(refused(stats, RecordType::kTensorStats,
                      text("x").raw(std::int64_t{1} << 40).raw(std::int64_t{1} << 40)));
  EXPECT_TRUE(refused(stats, RecordType::kTensorStats, text("x").raw(std::int64_t{-1}).raw(std::int64_t{1})));

  GradientRecord gradient{};
  gradient.root = gradient.key = kStrInline;
  gradient.norm = 1;
  const ValueBytes names = ValueBytes().inline_text("model").inline_text("w");
  EXPECT_FALSE(refused(gradient, RecordType::kGradient, names));
  for (const double norm : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0}) {
    gradient.norm = norm;
    EXPECT_TRUE(refused(gradient, RecordType::kGradient, names)) << norm;
  }
  gradient.state = static_cast<GradientCode>(4);
  EXPECT_TRUE(refused(gradient, RecordType::kGradient, names));

  TensorRecord tensor{};
  tensor.label = kStrNone;
  tensor.ext_members = 1;
  ValueBytes member;
  member.header(ValueTag::kString, 1).text("a").align();
  EXPECT_TRUE(refused(tensor, RecordType::kTensor, member));
  EXPECT_FALSE(refused(tensor, RecordType::kTensor, ValueBytes(member).header(ValueTag::kNone)));
  EXPECT_TRUE(refused(tensor, RecordType::kTensor, ValueBytes(member).tensor(1, {})));
}

TEST(RingLines, ATensorMayBringTheFactsOfItsModule) {
  TensorRecord tensor{};
  tensor.header.flags = kTensorModuleFacts;
  tensor.label = kStrInline;
  tensor.dtype = 6;
  tensor.tensor = 5;
  tensor.thread = 1;
  tensor.ext_members = 1;
  tensor.category = CategoryCode::kParameter;
  ValueBytes behind = ValueBytes().inline_text("norm.weight").align();
  behind.string("source").string("parameter");
  EXPECT_TRUE(refused(tensor, RecordType::kTensor, behind)) << "it says that there are facts";
  behind.string("torch::nn::BatchNorm2dImpl")
      .header(ValueTag::kBool, 1)
      .header(ValueTag::kInt)
      .raw(std::int64_t{1});
  EXPECT_TRUE(refused(tensor, RecordType::kTensor, behind)) << "one setting is announced";
  behind.string("eps").header(ValueTag::kDouble).raw(0.5);

  RingSampler sampler;
  sampler.add(tensor, RecordType::kTensor, behind.bytes);
  EXPECT_EQ(
      rendered(sampler.samples),
      R"({"kind":"tensor","span_id":"s0.2","tensor_id":"t5","label":"norm.weight","shape":[],"dtype":"f32",)"
      R"("device":"cpu","requires_grad":false,"dense_bytes":4,"category":"parameter",)"
      R"("ext":{"thread":1,"time_ns":1001,"source":"parameter","class":"torch::nn::BatchNorm2dImpl",)"
      R"("exact":true,"config":{"eps":0.5}}})"
      "\n");
}

}  // namespace
}  // namespace tensortap::format
