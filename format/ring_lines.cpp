#include "format/ring_lines.h"

#include <cstring>
#include <iterator>

#include "format/module_nodes.h"
#include "format/ring_lines_parts.h"

namespace tensortap::format {
namespace {

constexpr const char* kScopes[] = {
    "function",          "backward_function",    "torchscript_function", "kernel_function_dtype",
    "custom_class",      "build_feature",        "lite_interpreter",     "user_scope",
    "static_runtime_op", "static_runtime_model",
};

const char* scope_name(std::uint8_t scope) { return scope < std::size(kScopes) ? kScopes[scope] : nullptr; }

void append_scalar(std::string& out, std::int64_t value) { append_json_number(out, value); }
void append_scalar(std::string& out, double value) { append_json_number(out, value); }
void append_scalar(std::string& out, std::uint8_t value) { out += value ? "true" : "false"; }

std::optional<Step> step_of(StepCode code) {
  switch (code) {
    case StepCode::kForward:
      return Step::kForward;
    case StepCode::kBackward:
      return Step::kBackward;
    case StepCode::kOptimizer:
      return Step::kOptimizer;
    case StepCode::kNone:
      break;
  }
  return std::nullopt;
}

SpanKind span_kind_of(SpanKindCode code) {
  switch (code) {
    case SpanKindCode::kOp:
      return SpanKind::kOp;
    case SpanKindCode::kModule:
      return SpanKind::kModule;
    case SpanKindCode::kFunction:
      break;
  }
  return SpanKind::kFunction;
}

}  // namespace

bool StringTable::get(StrRef ref, std::string_view& text) const {
  const std::uint64_t offset = std::uint64_t{ref} * 8;
  std::uint32_t length = 0;
  if (offset + sizeof length > bytes) return false;
  std::memcpy(&length, data + offset, sizeof length);
  if (length > bytes - offset - sizeof length) return false;
  text = {data + offset + sizeof length, length};
  return true;
}

// The members that only a module call has, behind `ext_`'s last one.
bool RecordRenderer::append_module_call(Values& rest, const SpanStartRecord& start) {
  ExtWriter ext(ext_, replaced_in_ext_, true);
  if (start.forward_thread != 0) ext.number("module", start.forward_thread);
  if (start.modes & kModeTrainingKnown) ext.boolean("training", (start.modes & kModeTraining) != 0);
  if (start.modes & kModeThreadKnown) {
    ext.boolean("grad_mode", (start.modes & kModeGrad) != 0);
    if (start.modes & kModeInference) ext.flag("inference_mode");
    if (start.modes & kModeAutocast) ext.flag("autocast");
  }
  if (start.tails & kArgsCut) ext.flag("args_cut");
  NodeBytes bytes{rest.at, rest.end};
  if (start.tails & kTailFacts && !append_module_facts(ext.members(), bytes, replaced_in_ext_)) return false;
  return !(start.tails & kTailArgs) || append_call_args(ext.members(), bytes, replaced_in_ext_);
}

bool RecordRenderer::append_span_start(Values& rest, const SpanStartRecord& start, std::uint32_t ring) {
  std::string_view name, detail;
  const unsigned char* base = rest.at - sizeof start;
  if (!rest.text(start.name, name) || !rest.text(start.detail, detail)) return false;
  rest.align(base);
  const std::uint16_t flags = start.header.flags;
  ExtWriter ext(ext_, replaced_in_ext_);
  ext.number("thread", start.thread);
  if (const char* scope = start.scope == 0 ? nullptr : scope_name(start.scope)) ext.text("scope", scope);
  if (flags & kSpanMeasuredRegion) ext.text("measured_region", name);
  if (!detail.empty()) ext.text(start.span_kind == SpanKindCode::kModule ? "type" : "overload", detail);
  if (flags & kSpanIsStep) ext.number("step_number", start.call_index);
  if (flags & kSpanHasCall) ext.number("call_index", start.call_index);
  if (flags & kSpanHasSeq) {
    append_json_number(ext.key("seq"), start.seq);
    if (start.step == StepCode::kBackward && start.forward_thread != 0)
      ext.number("forward_thread", start.forward_thread);
  }
  if (flags & kSpanInferred) ext.flag("inferred");
  if (flags & kSpanAsync) ext.flag("async");
  if (start.span_kind == SpanKindCode::kModule && !append_module_call(rest, start)) return false;

  id_.clear();
  append_span_id(id_, ring, start.number);
  parent_.clear();
  append_span_id(parent_, start.parent.ring, start.parent.number);
  SpanStart event;
  event.id = id_;
  event.parent_id = parent_;
  event.name = name;
  event.start_ns = start.start_ns;
  event.span_kind = span_kind_of(start.span_kind);
  event.step = step_of(start.step);
  event.ext = ext.finish();
  writer_.write(event);
  return true;
}

bool RecordRenderer::append_span_end(Values& rest, const RecordHeader& header, std::uint64_t number,
                                     std::uint64_t duration_ns, std::uint64_t own_end_ns,
                                     std::uint32_t ring) {
  ExtWriter ext(ext_, replaced_in_ext_);
  if (header.flags & kSpanCut) ext.text("cut", header.flags & kSpanThreadEnd ? "thread_end" : "stop");
  if (header.flags & kSpanHeld) ext.number("end_ns", own_end_ns);
  if (header.flags & kSpanFailed) ext.flag("failed");
  if (header.flags & kSpanOutputCut) ext.flag("output_cut");
  if (header.flags & kSpanOutput) {
    NodeBytes bytes{rest.at, rest.end};
    if (!append_node(ext.key("output"), bytes, replaced_in_ext_)) return false;
  }
  id_.clear();
  append_span_id(id_, ring, number);
  writer_.write(SpanEnd{id_, duration_ns, ext.finish()});
  return true;
}

// One tensor among the arguments, as `{"shape":[…],"dtype":…}`; its id joins the operator's inputs.
bool RecordRenderer::append_tensor_value(Values& rest, const ValueHeader& header) {
  std::uint64_t ids[2] = {0, 0};
  if (!rest.take(ids, sizeof ids)) return false;
  if (header.flags & kTensorUndefined) {
    ext_ += "{\"undefined\":true}";
    return true;
  }
  input_ids_.push_back(ids[0]);
  std::uint64_t elements = 1;
  ext_ += "{\"shape\":";
  if (header.flags & kTensorNoSizes) {
    ext_ += "null";
    elements = 0;
  } else {
    ext_ += '[';
    for (std::uint8_t i = 0; i < header.ndim; ++i) {
      std::int64_t dim = 0;
      if (!rest.take(&dim, sizeof dim)) return false;
      if (i != 0) ext_ += ',';
      append_json_number(ext_, dim);
      elements = saturating_product(elements, dim < 0 ? 0 : static_cast<std::uint64_t>(dim));
    }
    ext_ += ']';
  }
  op_.input_dense_bytes =
      saturating_sum(op_.input_dense_bytes, saturating_product(elements, dtype_bytes(header.dtype)));
  ext_ += ",\"dtype\":\"";
  ext_ += dtype_label(header.dtype);
  ext_ += '"';
  if (header.device_type != 0) {
    ext_ += ",\"device\":\"";
    append_device_label(ext_, header.device_type, header.device_index);
    ext_ += '"';
  }
  if (device_.empty()) append_device_label(device_, header.device_type, header.device_index);
  if (header.flags & kTensorRequiresGrad) ext_ += ",\"requires_grad\":true";
  ext_ += '}';
  return true;
}

bool RecordRenderer::append_value(Values& rest, bool top_level) {
  ValueHeader header;
  if (!rest.take(&header, sizeof header)) return false;
  const auto list = [&](auto value) {
    ext_ += '[';
    for (std::uint16_t i = 0; i < header.count; ++i) {
      if (!rest.take(&value, sizeof value)) return false;
      if (i != 0) ext_ += ',';
      append_scalar(ext_, value);
    }
    ext_ += ']';
    return true;
  };
  switch (header.tag) {
    case ValueTag::kTensor:
      return append_tensor_value(rest, header);
    case ValueTag::kInt: {
      std::int64_t value = 0;
      if (!rest.take(&value, sizeof value)) return false;
      append_json_number(ext_, value);
      return true;
    }
    case ValueTag::kDouble: {
      double value = 0;
      if (!rest.take(&value, sizeof value)) return false;
      append_json_number(ext_, value);
      return true;
    }
    case ValueTag::kBool:
      ext_ += header.count ? "true" : "false";
      return true;
    case ValueTag::kNone:
      ext_ += "null";
      return true;
    case ValueTag::kOther:
      ext_ += "{\"other\":true}";
      return true;
    case ValueTag::kString: {
      const auto* text = reinterpret_cast<const char*>(rest.at);
      if (!rest.skip(round_up_8(header.count))) return false;
      replaced_in_ext_ += append_json_string(ext_, {text, header.count});
      return true;
    }
    case ValueTag::kIntList:
      return list(std::int64_t{});
    case ValueTag::kDoubleList:
      return list(double{});
    case ValueTag::kBoolList:
      return list(std::uint8_t{}) && rest.skip(round_up_8(header.count) - header.count);
    case ValueTag::kTensorList: {
      std::uint64_t total = 0;
      if (!top_level || !rest.take(&total, sizeof total)) return false;
      ext_ += '[';
      for (std::uint16_t i = 0; i < header.count; ++i) {
        if (i != 0) ext_ += ',';
        if (!append_value(rest, false)) return false;
      }
      ext_ += ']';
      return true;
    }
    case ValueTag::kTuple:
    case ValueTag::kList:
    case ValueTag::kMapping:
    case ValueTag::kScalar:
    case ValueTag::kObject:
      break;  // no operator has them
  }
  return false;
}

bool RecordRenderer::append_args(Values& rest, std::uint16_t count) {
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i != 0) ext_ += ',';
    if (!append_value(rest, true)) return false;
  }
  return true;
}

bool RecordRenderer::read_outputs(Values& rest, std::uint16_t count) {
  outputs_.clear();
  output_dims_.clear();
  scalar_output_ = 0;
  std::uint32_t pending = count;
  for (std::uint32_t i = 0; i < pending; ++i) {
    ValueHeader header;
    if (!rest.take(&header, sizeof header)) return false;
    std::uint64_t ignored = 0;
    switch (header.tag) {
      case ValueTag::kTensor: {
        Output output;
        output.header = header;
        if (!rest.take(&output.tensor, 8) || !rest.take(&output.storage, 8)) return false;
        if (header.flags & kTensorUndefined) break;
        output.first_dim = static_cast<std::uint32_t>(output_dims_.size());
        output.ndim = header.flags & kTensorNoSizes ? 0 : header.ndim;
        output.dense_bytes = header.flags & kTensorNoSizes ? 0 : dtype_bytes(header.dtype);
        for (std::uint32_t d = 0; d < output.ndim; ++d) {
          std::int64_t dim = 0;
          if (!rest.take(&dim, sizeof dim)) return false;
          output_dims_.push_back(dim < 0 ? 0 : static_cast<std::uint64_t>(dim));
          output.dense_bytes = saturating_product(output.dense_bytes, output_dims_.back());
        }
        outputs_.push_back(output);
        break;
      }
      case ValueTag::kTensorList:
        if (!rest.take(&ignored, 8)) return false;
        pending += header.count;
        break;
      case ValueTag::kInt:
      case ValueTag::kDouble:
        if (!rest.take(&ignored, 8)) return false;
        [[fallthrough]];
      default:
        if (header.tag == ValueTag::kString || header.tag == ValueTag::kBoolList) {
          if (!rest.skip(round_up_8(header.count))) return false;
        } else if (header.tag == ValueTag::kIntList || header.tag == ValueTag::kDoubleList) {
          if (!rest.skip(std::uint64_t{header.count} * 8)) return false;
        }
        if (i == 0) scalar_output_ = static_cast<std::uint8_t>(header.tag);
    }
  }
  return true;
}

// A first output that is no tensor still has a type; "none" is no dtype that a reader could give a size to.
static const char* scalar_dtype(std::uint8_t tag) {
  switch (static_cast<ValueTag>(tag)) {
    case ValueTag::kInt:
      return "i64";
    case ValueTag::kDouble:
      return "f64";
    case ValueTag::kBool:
      return "bool";
    default:
      return "none";
  }
}

std::string_view RecordRenderer::keep_id(char prefix, std::uint64_t number) {
  id_.assign(1, prefix);
  append_json_number(id_, number);
  return id_;
}

// Outputs behind the first have no place in an `op` record: a `tensor` record each.
void RecordRenderer::append_outputs(const OpRecord&) {
  for (std::size_t i = 1; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    ExtWriter ext(ext_, replaced_in_ext_);
    ext.text("op", op_.op_name);
    ext.number("index", i);
    if (output.storage != 0) ext.text("storage", keep_id('m', output.storage));
    output_id_.assign(1, 't');
    append_json_number(output_id_, output.tensor);
    device_.clear();
    append_device_label(device_, output.header.device_type, output.header.device_index);
    tensor_.span_id = op_.span_id;
    tensor_.tensor_id = output_id_;
    tensor_.shape.assign(output_dims_.begin() + output.first_dim,
                         output_dims_.begin() + output.first_dim + output.ndim);
    tensor_.dtype = dtype_label(output.header.dtype);
    tensor_.device = device_;
    tensor_.requires_grad = (output.header.flags & kTensorRequiresGrad) != 0;
    tensor_.dense_bytes = output.dense_bytes;
    if (output.header.flags & kTensorNoSizes || dtype_bytes(output.header.dtype) == 0)
      tensor_.dense_bytes.reset();
    tensor_.ext = ext.finish();
    writer_.write(tensor_);
  }
}

bool RecordRenderer::append_op(Values& rest, const OpRecord& record) {
  std::string_view name, overload;
  const unsigned char* base = rest.at - sizeof record;
  if (!rest.text(record.name, name) || !rest.text(record.overload, overload)) return false;
  rest.align(base);
  op_.input_dense_bytes = 0;
  input_ids_.clear();
  device_.clear();
  ExtWriter ext(ext_, replaced_in_ext_);
  ext.number("thread", record.thread);
  if (const char* scope = record.scope == 0 ? nullptr : scope_name(record.scope)) ext.text("scope", scope);
  if (!overload.empty()) ext.text("overload", overload);
  if (record.header.flags & kOpHasSeq) append_json_number(ext.key("seq"), record.seq);
  ext.key("args") += '[';
  if (!append_args(rest, record.inputs)) return false;
  ext_ += ']';
  if (record.header.flags & kOpInputsCut) ext.flag("args_cut");
  if (!read_outputs(rest, record.outputs)) return false;
  if (!outputs_.empty() && outputs_[0].storage != 0) ext.text("storage", keep_id('m', outputs_[0].storage));
  if (record.header.flags & kOpFailed) ext.flag("failed");

  parent_.clear();
  append_span_id(parent_, record.span.ring, record.span.number);
  op_.span_id = parent_;
  op_.op_name = name;
  ids_.clear();
  std::vector<std::string_view>& inputs = op_.inputs;
  inputs.clear();
  ids_.reserve(input_ids_.size() * 21);  // the views below must not move
  for (const std::uint64_t tensor : input_ids_) {
    const std::size_t begin = ids_.size();
    ids_ += 't';
    append_json_number(ids_, tensor);
    inputs.emplace_back(ids_.data() + begin, ids_.size() - begin);
  }
  op_.shape.clear();
  op_.output.reset();
  op_.output_dense_bytes.reset();
  op_.dtype = scalar_dtype(scalar_output_);
  if (!outputs_.empty()) {
    const Output& first = outputs_[0];
    output_id_.assign(1, 't');
    append_json_number(output_id_, first.tensor);
    op_.output = output_id_;
    op_.shape.assign(output_dims_.begin() + first.first_dim,
                     output_dims_.begin() + first.first_dim + first.ndim);
    op_.dtype = dtype_label(first.header.dtype);
    device_.clear();
    append_device_label(device_, first.header.device_type, first.header.device_index);
    if (!(first.header.flags & kTensorNoSizes) && dtype_bytes(first.header.dtype) != 0) {
      op_.output_dense_bytes = first.dense_bytes;
    }
  }
  if (device_.empty()) device_ = "cpu";
  op_.device = device_;
  op_.duration_ns = record.duration_ns;
  op_.timestamp_ns = record.start_ns;
  op_.ext = ext.finish();
  writer_.write(op_);
  append_outputs(record);
  return true;
}

bool RecordRenderer::append_memory(Values& rest, const MemoryRecord& record) {
  std::string_view op_name;
  if (!rest.text(record.op_name, op_name)) return false;
  device_.clear();
  append_device_label(device_, record.device_type, record.device_index);
  parent_.clear();
  append_span_id(parent_, record.span.ring, record.span.number);
  ExtWriter ext(ext_, replaced_in_ext_);
  ext.number("thread", record.thread);
  memory_.timestamp_ns = record.header.time_ns;
  memory_.storage_id = keep_id('m', record.storage);
  // Which tensor will hold the block is not known when it is allocated: the storage stands for it.
  memory_.tensor_id = memory_.storage_id;
  memory_.span_id = parent_;
  memory_.op_name.reset();
  if (!op_name.empty()) memory_.op_name = op_name;
  memory_.device = device_;
  memory_.bytes = record.size_bytes;
  memory_.action = record.is_free ? MemoryAction::kFree : MemoryAction::kAlloc;
  memory_.dtype = "u8";
  memory_.ext = ext.finish();
  writer_.write(memory_);
  return true;
}

bool RecordRenderer::append_device_memory(const DeviceMemoryRecord& record) {
  device_.clear();
  append_device_label(device_, record.device_type, record.device_index);
  DeviceMemory event;
  const auto known = [](std::uint64_t value) {
    return value == kNotObserved ? std::nullopt : std::optional<std::uint64_t>(value);
  };
  event.timestamp_ns = record.header.time_ns;
  event.device = device_;
  event.used_bytes = known(record.used);
  event.free_bytes = known(record.free);
  event.reserved_bytes = known(record.reserved);
  event.capacity_bytes = known(record.capacity);
  if (!event.used_bytes && !event.free_bytes && !event.reserved_bytes && !event.capacity_bytes) return false;
  writer_.write(event);
  return true;
}

bool RecordRenderer::append(const unsigned char* record, std::uint64_t available, std::uint32_t ring,
                            const StringTable& strings) {
  RecordHeader header;
  if (!read_record_header(record, available, header)) return false;
  Values rest{record, record + header.bytes, strings};
  const std::size_t before = out_.size();
  const std::uint64_t replaced_before = replaced_in_ext_;
  bool good = false;
  switch (header.type) {
    case RecordType::kPad:
      return true;
    case RecordType::kLine: {
      LineRecord line;
      good = rest.take(&line, sizeof line) && line.length != 0 &&
             line.length <= static_cast<std::uint64_t>(rest.end - rest.at) &&
             rest.at[line.length - 1] == '\n';  // else it would swallow the next record's line
      if (good) out_.append(reinterpret_cast<const char*>(rest.at), line.length);
      break;
    }
    case RecordType::kSpanStart: {
      SpanStartRecord start;
      good = rest.take(&start, sizeof start) && append_span_start(rest, start, ring);
      break;
    }
    case RecordType::kSpanEnd: {
      SpanEndRecord end;
      good = rest.take(&end, sizeof end) &&
             append_span_end(rest, end.header, end.number, end.duration_ns, end.own_end_ns, ring);
      break;
    }
    case RecordType::kSpan: {
      SpanRecord span;
      good = rest.take(&span, sizeof span) && append_span_start(rest, span.start, ring);
      good = good && append_span_end(rest, RecordHeader{}, span.start.number, span.duration_ns, 0, ring);
      break;
    }
    case RecordType::kOp: {
      OpRecord op;
      good = rest.take(&op, sizeof op) && append_op(rest, op);
      break;
    }
    case RecordType::kMemory: {
      MemoryRecord memory;
      good = rest.take(&memory, sizeof memory) && append_memory(rest, memory);
      break;
    }
    case RecordType::kDeviceMemory: {
      DeviceMemoryRecord memory;
      good = rest.take(&memory, sizeof memory) && append_device_memory(memory);
      break;
    }
    case RecordType::kTensor:
    case RecordType::kTensorStats:
    case RecordType::kGradient:
      good = append_evidence(rest, header, ring);
      break;
  }
  if (!good) {
    out_.resize(before);
    replaced_in_ext_ = replaced_before;
  }
  return good;
}

bool append_record_lines(std::string& out, const unsigned char* record, std::uint64_t available,
                         std::uint32_t ring, const StringTable& strings) {
  RecordRenderer renderer(out);
  return renderer.append(record, available, ring, strings);
}

}  // namespace tensortap::format
