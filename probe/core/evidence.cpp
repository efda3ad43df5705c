#include "probe/core/evidence.h"

#include <cmath>
#include <cstring>

#include "format/text.h"

namespace tensortap::probe {

using namespace format;

namespace {

constexpr std::string_view kSourceName = "source";

// A text on its way into a record: in the string table, or inline when that is full.
struct PlacedText {
  StrRef ref = kStrNone;
  std::string_view text;

  PlacedText(CaptureState& capture, std::string_view given) noexcept
      : text(given.substr(0, kMaxEvidenceText)) {
    ref = capture.strings.find_or_add(text, StringInterner::Share::kThreeQuarters);
  }
  std::uint32_t inline_bytes() const noexcept {
    return ref == kStrInline ? static_cast<std::uint32_t>(sizeof(std::uint16_t) + text.size()) : 0;
  }
};

struct Dims {
  const std::int64_t* at = nullptr;
  std::uint32_t count = 0;
};

std::uint32_t member_bytes(std::string_view name, std::string_view value) noexcept {
  return static_cast<std::uint32_t>(2 * sizeof(ValueHeader) + round_up_8(name.size()) +
                                    round_up_8(value.size()));
}

unsigned char* put_string_value(unsigned char* at, std::string_view text) noexcept {
  ValueHeader header{};
  header.tag = ValueTag::kString;
  header.count = static_cast<std::uint16_t>(text.size());
  std::memcpy(at, &header, sizeof header);
  at += sizeof header;
  std::memset(at, 0, round_up_8(text.size()));
  std::memcpy(at, text.data(), text.size());
  return at + round_up_8(text.size());
}

constexpr std::string_view kModuleName = "module";

unsigned char* put_number_value(unsigned char* at, std::uint64_t number) noexcept {
  ValueHeader header{};
  header.tag = ValueTag::kInt;
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, &number, sizeof number);
  return at + sizeof header + sizeof number;
}

unsigned char* put_bool_value(unsigned char* at, bool value) noexcept {
  ValueHeader header{};
  header.tag = ValueTag::kBool;
  header.count = value ? 1 : 0;
  std::memcpy(at, &header, sizeof header);
  return at + sizeof header;
}

constexpr std::string_view kMaskNames[] = {"has_nan_or_posinf", "blocked_any", "blocked_equals_strict_upper"};

unsigned char* put_mask(unsigned char* at, const MaskSummary& mask) noexcept {
  const bool values[] = {mask.has_nan_or_posinf, mask.blocked_any, mask.blocked_equals_strict_upper};
  for (std::size_t i = 0; i < 3; ++i) at = put_bool_value(put_string_value(at, kMaskNames[i]), values[i]);
  return at;
}

// What a record brings along for its line's ext.
struct Members {
  std::string_view source;
  std::uint64_t module = 0;  // its number; 0: none
  FactBytes facts{};
  const MaskSummary* mask = nullptr;

  std::uint16_t count() const noexcept {
    return static_cast<std::uint16_t>(1 + (module != 0 ? 1 : 0) + (mask != nullptr ? 3 : 0));
  }
  std::uint32_t bytes() const noexcept {
    std::uint32_t sum = member_bytes(kSourceName, source) + facts.size;
    if (module != 0) sum += member_bytes(kModuleName, {}) + static_cast<std::uint32_t>(sizeof module);
    if (mask == nullptr) return sum;
    for (const std::string_view name : kMaskNames) sum += member_bytes(name, {});
    return sum;
  }
  void put(unsigned char* at) const noexcept {
    at = put_string_value(put_string_value(at, kSourceName), source);
    if (module != 0) at = put_number_value(put_string_value(at, kModuleName), module);
    if (mask != nullptr) at = put_mask(at, *mask);
    if (facts.size != 0) std::memcpy(at, facts.at, facts.size);
  }
};

// Puts the record and what stands behind it into the ring.
template <class Record, std::size_t kTexts>
bool put(ThreadState& state, std::uint64_t now_ns, RecordType type, Record& record,
         const PlacedText* const (&texts)[kTexts], Dims dims, const Members& members) noexcept {
  if (!window_is_open()) return false;
  std::uint32_t inlined = 0;
  for (const PlacedText* text : texts) inlined += text->inline_bytes();
  const auto front = static_cast<std::uint32_t>(round_up_8(sizeof record + inlined));
  const std::uint32_t bytes = front + 8 * dims.count + members.bytes();
  unsigned char* room = state.ring.reserve(bytes);
  if (room == nullptr) return false;
  const std::uint16_t flags = members.facts.size != 0 ? kTensorModuleFacts : 0;
  record.header = {bytes, type, flags, state.in_order(now_ns)};
  record.span = state.nearest_stored(state.depth);
  record.thread = state.thread;
  record.ext_members = members.count();
  std::memcpy(room, &record, sizeof record);
  unsigned char* at = room + sizeof record;
  std::memset(at, 0, front - sizeof record);
  for (const PlacedText* text : texts) {
    if (text->ref != kStrInline) continue;
    const auto length = static_cast<std::uint16_t>(text->text.size());
    std::memcpy(at, &length, sizeof length);
    std::memcpy(at + sizeof length, text->text.data(), text->text.size());
    at += sizeof length + text->text.size();
  }
  at = room + front;
  if (dims.count != 0) std::memcpy(at, dims.at, 8 * std::size_t{dims.count});
  members.put(at + 8 * std::size_t{dims.count});
  state.ring.commit(bytes);
  return true;
}

// False: more elements than 64 bits count, or more dimensions than a record holds.
bool count_elements(const TensorFacts& tensor, std::uint64_t& elements) noexcept {
  elements = 1;
  if (tensor.ndim > kMaxEvidenceDims) return false;
  for (std::uint8_t i = 0; i < tensor.ndim; ++i) {
    const std::int64_t dimension = tensor.dims[i];
    if (dimension < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(dimension), &elements)) {
      return false;
    }
  }
  return true;
}

bool is_reduction(double value) noexcept { return !(value < 0); }  // not finite is written as 0

}  // namespace

bool write_tensor(CaptureState& capture, ThreadState& state, std::string_view label,
                  const TensorFacts& tensor, CategoryCode category, std::string_view source,
                  std::uint64_t module, FactBytes facts) noexcept {
  if (is_blank(label) || tensor.flags & kTensorUndefined) return false;
  const bool sized = (tensor.flags & kTensorNoSizes) == 0;
  if (sized && tensor.ndim > kMaxEvidenceDims) return false;
  const PlacedText name(capture, label);
  TensorRecord record{};
  record.tensor = tensor.id;
  record.storage = tensor.storage;
  record.label = name.ref;
  record.dtype = tensor.dtype;
  record.device_type = tensor.device_type;
  record.device_index = tensor.device_index;
  record.ndim = sized ? tensor.ndim : 0;
  record.flags = tensor.flags;
  record.category = category;
  return put(state, state.now(), RecordType::kTensor, record, {&name}, {tensor.dims, record.ndim},
             {source, module, facts});
}

bool write_tensor_stats(CaptureState& capture, ThreadState& state, std::string_view label,
                        const TensorFacts& tensor, const Reductions& values, std::string_view source,
                        const MaskSummary* mask) noexcept {
  std::uint64_t elements = 0;
  if (is_blank(label) || tensor.flags & (kTensorUndefined | kTensorNoSizes)) return false;
  if (!count_elements(tensor, elements) || values.non_finite > elements) return false;
  if (!is_reduction(values.rms) || !is_reduction(values.abs_max)) return false;
  const PlacedText name(capture, label);
  TensorStatsRecord record{};
  record.tensor = tensor.id;
  record.non_finite = values.non_finite;
  record.rms = values.rms;
  record.abs_max = values.abs_max;
  record.mean = values.mean;
  record.label = name.ref;
  record.dtype = tensor.dtype;
  record.device_type = tensor.device_type;
  record.device_index = tensor.device_index;
  record.ndim = tensor.ndim;
  return put(state, state.now(), RecordType::kTensorStats, record, {&name}, {tensor.dims, tensor.ndim},
             {source, 0, {}, mask});
}

GradientCode gradient_state(double norm) noexcept {
  if (!std::isfinite(norm) || norm < 0) return GradientCode::kNonFinite;
  return norm == 0 ? GradientCode::kZero : GradientCode::kPresent;
}

bool write_gradient(CaptureState& capture, ThreadState& state, std::string_view root, std::string_view key,
                    GradientCode gradient, double norm, std::string_view source) noexcept {
  if (is_blank(root) || is_blank(key)) return false;
  const PlacedText placed_root(capture, root);
  const PlacedText placed_key(capture, key);
  GradientRecord record{};
  record.number = state.ring.next_span();
  record.norm = norm;
  record.root = placed_root.ref;
  record.key = placed_key.ref;
  record.state = gradient;
  return put(state, state.now(), RecordType::kGradient, record, {&placed_root, &placed_key}, {}, {source});
}

}  // namespace tensortap::probe
