// One ring record of every type, with a value of every type in its operator: for tests of ring_lines, and as
// a fuzzer's first inputs.
//
//   const RingSamples samples = ring_samples();
//   for (const std::string& record : samples.records)
//     renderer.append(bytes_of(record), record.size(), 1, samples.table());
//
// Thread rules: plain values.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "format/ring_lines.h"
#include "format/ring_record.h"

namespace tensortap::format {

struct RingSamples {
  std::string strings;  // the string table's bytes
  std::vector<std::string> records;
  StringTable table() const { return {strings.data(), strings.size()}; }
};

inline const unsigned char* bytes_of(const std::string& record) {
  return reinterpret_cast<const unsigned char*>(record.data());
}

class RingSampler {
 public:
  StrRef intern(std::string_view text) {
    const auto ref = static_cast<StrRef>(samples.strings.size() / 8);
    const auto length = static_cast<std::uint32_t>(text.size());
    samples.strings.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
    samples.strings.resize(round_up_8(samples.strings.size()), '\0');
    return ref;
  }
  // Finishes the record: pads it, and writes its length and type.
  template <class Record>
  void add(const Record& record, RecordType type, std::string_view behind = {}) {
    RecordHeader header;  // at the front of every record
    std::memcpy(&header, &record, sizeof header);
    header.type = type;
    header.bytes = static_cast<std::uint32_t>(round_up_8(sizeof record + behind.size()));
    header.time_ns = ++time_ns;
    std::string bytes(sizeof record, '\0');
    std::memcpy(bytes.data(), &record, sizeof record);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.append(behind);
    bytes.resize(header.bytes, '\0');
    samples.records.push_back(bytes);
  }

  RingSamples samples;
  std::uint64_t time_ns = 1000;
};

// The bytes behind an operator's fixed part.
class ValueBytes {
 public:
  ValueBytes& inline_text(std::string_view text) {
    const auto length = static_cast<std::uint16_t>(text.size());
    return raw(length).text(text);
  }
  ValueBytes& align() {
    bytes.resize(round_up_8(bytes.size()), '\0');
    return *this;
  }
  ValueBytes& header(ValueTag tag, std::uint16_t count = 0) {
    ValueHeader value{};
    value.tag = tag;
    value.count = count;
    return raw(value);
  }
  ValueBytes& tensor(std::uint64_t id, const std::vector<std::int64_t>& shape, std::uint8_t flags = 0) {
    ValueHeader value{};
    value.tag = ValueTag::kTensor;
    value.dtype = 6;  // f32
    value.ndim = static_cast<std::uint8_t>(shape.size());
    value.flags = flags;
    value.device_type = 1;  // cuda
    raw(value).raw(id).raw(id + 1000);
    for (const std::int64_t dimension : shape) raw(dimension);
    return *this;
  }
  ValueBytes& named(ValueTag tag, std::string_view text) {
    return header(tag, static_cast<std::uint16_t>(text.size())).text(text).align();
  }
  ValueBytes& string(std::string_view text) { return named(ValueTag::kString, text); }
  ValueBytes& text(std::string_view text) {
    bytes.append(text);
    return *this;
  }
  template <class T>
  ValueBytes& raw(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string bytes;
};

inline RingSamples ring_samples() {
  RingSampler sampler;
  const StrRef name = sampler.intern("aten::convolution");
  const StrRef overload = sampler.intern("out");
  const StrRef type = sampler.intern("Conv2d");

  const std::string_view meta =
      R"({"kind":"span_start","id":"s0.1","name":"main","start_ns":0,"span_kind":"function","measured":false})"
      "\n";
  sampler.add(LineRecord{{}, static_cast<std::uint32_t>(meta.size()), 0}, RecordType::kLine, meta);
  sampler.add(MemoryRecord{}, RecordType::kPad);  // a pad may hold anything

  SpanStartRecord module{};
  module.header.flags = kSpanHasCall | kSpanHasSeq | kSpanInferred | kSpanAsync;
  module.parent = {0, 0, kWindowSpan};
  module.number = 3;
  module.start_ns = 1100;
  module.seq = -1;
  module.forward_thread = 2;
  module.thread = 1;
  module.call_index = 4;
  module.name = kStrInline;
  module.detail = type;
  module.span_kind = SpanKindCode::kModule;
  module.step = StepCode::kBackward;
  module.scope = 7;
  sampler.add(module, RecordType::kSpanStart, ValueBytes().inline_text("net.\"conv\"\n\xFF").bytes);

  SpanEndRecord end{};
  end.header.flags = kSpanCut | kSpanHeld | kSpanThreadEnd;
  end.number = 3;
  end.duration_ns = 500;
  end.own_end_ns = 1500;
  sampler.add(end, RecordType::kSpanEnd);

  SpanRecord step{};
  step.start = module;
  step.start.header.flags = kSpanIsStep;
  step.start.number = 5;
  step.start.name = sampler.intern("step-000000000042");
  step.start.detail = kStrNone;
  step.start.call_index = 42;
  step.start.span_kind = SpanKindCode::kFunction;
  step.start.step = StepCode::kNone;
  step.start.scope = kScopeNone;
  step.duration_ns = 77;
  sampler.add(step, RecordType::kSpan);

  ValueBytes values;
  values.inline_text("aten::\xC3(\x01").align();
  values.tensor(1, {64, 3, 224, -1}, kTensorRequiresGrad).tensor(2, {}, kTensorUndefined);
  values.header(ValueTag::kInt).raw(std::int64_t{-3});
  values.header(ValueTag::kDouble).raw(0.1);
  values.header(ValueTag::kBool, 1).header(ValueTag::kNone).header(ValueTag::kOther);
  values.header(ValueTag::kString, 5).text("a\"\\\xFF\n").align();
  values.header(ValueTag::kIntList, 2).raw(std::int64_t{1}).raw(std::int64_t{-2});
  values.header(ValueTag::kDoubleList, 2).raw(1e300).raw(-0.0);
  values.header(ValueTag::kBoolList, 3).text(std::string_view("\1\0\1", 3)).align();
  values.header(ValueTag::kTensorList, 2).raw(std::uint64_t{3}).tensor(4, {}).tensor(5, {}, kTensorNoSizes);
  const std::uint16_t inputs = 12;
  values.tensor(6, {64, 8}).tensor(7, {2}, kTensorRequiresGrad);
  OpRecord op{};
  op.header.flags = kOpInputsCut | kOpFailed | kOpHasSeq;
  op.span = {1, 0, 3};
  op.start_ns = 1200;
  op.duration_ns = 30;
  op.seq = 9;
  op.thread = 1;
  op.name = kStrInline;
  op.overload = overload;
  op.inputs = inputs;
  op.outputs = 2;
  op.scope = 1;
  sampler.add(op, RecordType::kOp, values.bytes);

  MemoryRecord memory{};
  memory.span = {1, 0, 3};
  memory.storage = 1006;
  memory.size_bytes = 2048;
  memory.thread = 1;
  memory.op_name = name;
  memory.device_type = 1;
  sampler.add(memory, RecordType::kMemory);
  memory.is_free = 1;
  memory.op_name = kStrNone;
  sampler.add(memory, RecordType::kMemory);

  DeviceMemoryRecord sample{};
  sample.used = 4096;
  sample.free = kNotObserved;
  sample.reserved = 8192;
  sample.capacity = ~std::uint64_t{1};
  sampler.add(sample, RecordType::kDeviceMemory);

  ValueBytes behind;
  behind.inline_text("block.0 \xFF").align().raw(std::int64_t{4}).raw(std::int64_t{8});
  behind.header(ValueTag::kString, 6).text("source").align().header(ValueTag::kString, 3).text("sdk").align();
  behind.header(ValueTag::kString, 5).text("index").align().header(ValueTag::kInt).raw(std::int64_t{2});
  TensorRecord tensor{};
  tensor.span = {1, 0, 3};
  tensor.tensor = 6;
  tensor.storage = 1006;
  tensor.thread = 1;
  tensor.label = kStrInline;
  tensor.dtype = 6;
  tensor.device_type = 1;
  tensor.ndim = 2;
  tensor.flags = kTensorRequiresGrad;
  tensor.category = CategoryCode::kParameter;
  tensor.ext_members = 2;
  sampler.add(tensor, RecordType::kTensor, behind.bytes);

  TensorStatsRecord stats{};
  stats.span = {1, 0, 3};
  stats.tensor = 6;
  stats.non_finite = 1;
  stats.rms = 0.5;
  stats.abs_max = 1.0 / 0.0;
  stats.mean = -0.25;
  stats.thread = 1;
  stats.label = name;
  stats.dtype = 6;
  stats.device_type = 1;
  stats.ndim = 2;
  sampler.add(stats, RecordType::kTensorStats, ValueBytes().raw(std::int64_t{4}).raw(std::int64_t{8}).bytes);

  GradientRecord gradient{};
  gradient.span = {1, 0, 3};
  gradient.number = 9;
  gradient.norm = 0.125;
  gradient.thread = 1;
  gradient.root = name;
  gradient.key = kStrInline;
  sampler.add(gradient, RecordType::kGradient, ValueBytes().inline_text("block.0.weight").bytes);
  gradient.state = GradientCode::kMissing;
  gradient.number = 10;
  sampler.add(gradient, RecordType::kGradient, ValueBytes().inline_text("block.0.bias").bytes);
  SpanStartRecord call{};
  call.header.flags = kSpanHasCall;
  call.parent = {0, 0, kWindowSpan};
  call.number = 4;
  call.seq = -1;
  call.forward_thread = 7;  // the module's number
  call.thread = 1;
  call.name = type;
  call.detail = type;
  call.span_kind = SpanKindCode::kModule;
  call.scope = kScopeNone;
  call.modes = kModeTrainingKnown | kModeTraining | kModeThreadKnown | kModeInference | kModeAutocast;
  call.tails = kTailFacts | kTailArgs;
  ValueBytes tails;
  tails.string("torch.nn.modules.conv.Conv2d")
      .header(ValueTag::kBool, 1)
      .header(ValueTag::kInt)
      .raw(std::int64_t{6});
  tails.string("bias").header(ValueTag::kBool, 1).string("padding_mode").string("zeros");
  tails.string("stride").header(ValueTag::kIntList, 2).raw(std::int64_t{2}).raw(std::int64_t{3});
  tails.string("eps")
      .header(ValueTag::kDouble)
      .raw(0.5)
      .string("act")
      .named(ValueTag::kObject, "torch.nn.functional.relu");
  tails.string("scale").header(ValueTag::kDoubleList, 1).raw(1.5);
  tails.header(ValueTag::kTuple, 2)
      .tensor(1, {2, 3}, kTensorRequiresGrad)
      .header(ValueTag::kMapping, 1)
      .string("dict");
  tails.string("x")
      .string("str")
      .header(ValueTag::kList, 2)
      .header(ValueTag::kNone)
      .named(ValueTag::kScalar, "int");
  tails.header(ValueTag::kMapping, 1)
      .string("dict")
      .string("mask")
      .string("str")
      .tensor(2, {}, kTensorNested | kTensorNoSizes);
  sampler.add(call, RecordType::kSpanStart, tails.bytes);

  SpanEndRecord failed{};
  failed.header.flags = kSpanFailed | kSpanOutput | kSpanOutputCut;
  failed.number = 4;
  sampler.add(failed, RecordType::kSpanEnd, ValueBytes().tensor(3, {4}, kTensorSparse).bytes);

  return sampler.samples;
}

}  // namespace tensortap::format
