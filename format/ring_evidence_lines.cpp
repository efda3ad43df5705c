// Lines of the records of evidence: tensors, their statistics, gradients (layout: ring_record.h).
#include <cmath>
#include <iterator>
#include <optional>

#include "format/module_nodes.h"
#include "format/ring_lines.h"
#include "format/ring_lines_parts.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

constexpr MemoryCategory kCategories[] = {MemoryCategory::kParameter, MemoryCategory::kActivation,
                                          MemoryCategory::kGradient, MemoryCategory::kOptimizer,
                                          MemoryCategory::kOther};
constexpr GradientState kStates[] = {GradientState::kPresent, GradientState::kMissing, GradientState::kZero,
                                     GradientState::kNonFinite};

double finite_or_zero(double value) { return std::isfinite(value) ? value : 0.0; }

// The number of elements, or nothing when it has more than 64 bits.
std::optional<std::uint64_t> elements_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(elements, dimension, &elements)) return std::nullopt;
  }
  return elements;
}

}  // namespace

// Members of `ext` that the record brings along. A tensor is no member: it would count among an operator's
// inputs.
bool RecordRenderer::append_ext_members(Values& rest, std::uint16_t count) {
  for (std::uint16_t i = 0; i < count; ++i) {
    ValueHeader name;
    if (!rest.take(&name, sizeof name) || name.tag != ValueTag::kString || name.count == 0) return false;
    const auto* text = reinterpret_cast<const char*>(rest.at);
    if (!rest.skip(round_up_8(name.count))) return false;
    if (ext_.size() > 1) ext_ += ',';
    replaced_in_ext_ += append_json_string(ext_, {text, name.count});
    ext_ += ':';
    ValueHeader value;
    Values look = rest;
    if (!look.take(&value, sizeof value)) return false;
    if (value.tag == ValueTag::kTensor || value.tag == ValueTag::kTensorList) return false;
    if (!append_value(rest, true)) return false;
  }
  return true;
}

bool RecordRenderer::read_shape(Values& rest, std::uint8_t ndim, std::vector<std::uint64_t>& shape) {
  shape.clear();
  for (std::uint8_t i = 0; i < ndim; ++i) {
    std::int64_t dimension = 0;
    if (!rest.take(&dimension, sizeof dimension) || dimension < 0) return false;
    shape.push_back(static_cast<std::uint64_t>(dimension));
  }
  return true;
}

bool RecordRenderer::append_tensor(Values& rest, const TensorRecord& record, const unsigned char* base) {
  std::string_view label;
  if (!rest.text(record.label, label) || static_cast<std::size_t>(record.category) >= std::size(kCategories))
    return false;
  rest.align(base);
  const bool sized = (record.flags & kTensorNoSizes) == 0;
  if (!read_shape(rest, sized ? record.ndim : 0, tensor_.shape)) return false;
  ExtWriter ext(ext_, replaced_in_ext_);
  ext.number("thread", record.thread);
  ext.number("time_ns", record.header.time_ns);
  if (record.storage != 0) ext.text("storage", keep_id('m', record.storage));
  if (!append_ext_members(rest, record.ext_members)) return false;
  NodeBytes facts{rest.at, rest.end};
  if (record.header.flags & kTensorModuleFacts &&
      !append_module_facts(ext.members(), facts, replaced_in_ext_))
    return false;

  parent_.clear();
  append_span_id(parent_, record.span.ring, record.span.number);
  output_id_.assign(1, 't');
  append_json_number(output_id_, record.tensor);
  device_.clear();
  append_device_label(device_, record.device_type, record.device_index);
  tensor_.span_id = parent_;
  tensor_.tensor_id = output_id_;
  if (!label.empty()) tensor_.label = label;
  tensor_.dtype = dtype_label(record.dtype);
  tensor_.device = device_;
  tensor_.requires_grad = (record.flags & kTensorRequiresGrad) != 0;
  tensor_.dense_bytes.reset();
  if (sized && dtype_bytes(record.dtype) != 0) {
    std::uint64_t bytes = dtype_bytes(record.dtype);
    for (const std::uint64_t dimension : tensor_.shape) bytes = saturating_product(bytes, dimension);
    tensor_.dense_bytes = bytes;
  }
  tensor_.category = kCategories[static_cast<std::size_t>(record.category)];
  tensor_.ext = ext.finish();
  writer_.write(tensor_);
  tensor_.label.reset();  // an operator's further outputs use the same scratch
  tensor_.category = MemoryCategory::kOther;
  return true;
}

bool RecordRenderer::append_tensor_stats(Values& rest, const TensorStatsRecord& record,
                                         const unsigned char* base) {
  std::string_view label;
  if (!rest.text(record.label, label) || is_blank(label)) return false;
  rest.align(base);
  if (!read_shape(rest, record.ndim, stats_.shape)) return false;
  const std::optional<std::uint64_t> elements = elements_of(stats_.shape);
  if (!elements || record.non_finite > *elements || record.rms < 0 || record.abs_max < 0) return false;
  ExtWriter ext(ext_, replaced_in_ext_);
  ext.number("thread", record.thread);
  ext.number("time_ns", record.header.time_ns);
  if (record.tensor != 0) ext.text("tensor", keep_id('t', record.tensor));
  if (record.device_type != 0) {
    device_.clear();
    append_device_label(device_, record.device_type, record.device_index);
    ext.text("device", device_);
  }
  if (!append_ext_members(rest, record.ext_members)) return false;

  parent_.clear();
  append_span_id(parent_, record.span.ring, record.span.number);
  stats_.span_id = parent_;
  stats_.label = label;
  stats_.dtype = dtype_label(record.dtype);
  stats_.elements = *elements;
  stats_.non_finite = record.non_finite;
  stats_.rms = finite_or_zero(record.rms);
  stats_.abs_max = finite_or_zero(record.abs_max);
  stats_.mean = finite_or_zero(record.mean);
  stats_.ext = ext.finish();
  writer_.write(stats_);
  return true;
}

bool RecordRenderer::append_gradient(Values& rest, const GradientRecord& record, const unsigned char* base,
                                     std::uint32_t ring) {
  std::string_view root, key;
  if (!rest.text(record.root, root) || !rest.text(record.key, key) || is_blank(root) || is_blank(key))
    return false;
  rest.align(base);
  if (static_cast<std::size_t>(record.state) >= std::size(kStates)) return false;
  if (record.state == GradientCode::kPresent && !(std::isfinite(record.norm) && record.norm > 0))
    return false;
  parent_.clear();
  append_span_id(parent_, record.span.ring, record.span.number);
  ExtWriter ext(ext_, replaced_in_ext_);
  ext.number("thread", record.thread);
  ext.number("time_ns", record.header.time_ns);
  ext.text("span", parent_);
  if (!append_ext_members(rest, record.ext_members)) return false;

  id_.assign(1, 'g');
  append_json_number(id_, static_cast<std::uint64_t>(ring));
  id_ += '.';
  append_json_number(id_, record.number);
  Gradient event;
  event.event_id = id_;
  event.root = root;
  event.key = key;
  event.state = kStates[static_cast<std::size_t>(record.state)];
  if (record.state == GradientCode::kPresent) event.norm = record.norm;
  if (record.state == GradientCode::kZero) event.norm = 0.0;
  event.ext = ext.finish();
  writer_.write(event);
  return true;
}

bool RecordRenderer::append_evidence(Values& rest, const RecordHeader& header, std::uint32_t ring) {
  const unsigned char* base = rest.at;
  if (header.type == RecordType::kTensor) {
    TensorRecord record;
    return rest.take(&record, sizeof record) && append_tensor(rest, record, base);
  }
  if (header.type == RecordType::kTensorStats) {
    TensorStatsRecord record;
    return rest.take(&record, sizeof record) && append_tensor_stats(rest, record, base);
  }
  GradientRecord record;
  return rest.take(&record, sizeof record) && append_gradient(rest, record, base, ring);
}

}  // namespace tensortap::format
