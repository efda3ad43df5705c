#include "probe/torch/operator_values.h"

#include <cstring>

#include "probe/core/values.h"
#include "probe/torch/tensor_facts.h"

namespace tensortap::probe {

using namespace format;

namespace {

void put_tensors(CaptureState& capture, ThreadState& state, ValueWriter& values,
                 c10::ArrayRef<c10::IValue> items) {
  if (!values.begin_tensors(items.size())) return;
  TensorFacts undefined;
  undefined.flags = kTensorUndefined;
  for (const c10::IValue& item : items) {
    if (values.list_full()) break;
    if (item.isTensor()) {
      values.tensor(facts_of(capture, state, item.toTensor()));
    } else {
      values.tensor(undefined);
    }
  }
  values.end_tensors(items.size());
}

__attribute__((noinline)) void put_list(CaptureState& capture, ThreadState& state, ValueWriter& values,
                                        const c10::IValue& value) {
  const c10::ArrayRef<c10::IValue> items = value.toListRef();
  if (items.empty()) {
    values.integers(nullptr, 0);
    return;
  }
  const c10::IValue& first = items[0];
  const std::size_t kept = items.size() < kMaxListItems ? items.size() : kMaxListItems;
  if (first.isTensor() || (first.isNone() && value.isOptionalTensorList())) {
    put_tensors(capture, state, values, items);
  } else if (first.isInt()) {
    std::int64_t numbers[kMaxListItems];
    for (std::size_t i = 0; i < kept; ++i) numbers[i] = items[i].isInt() ? items[i].toInt() : -1;
    values.integers(numbers, items.size());
  } else if (first.isBool()) {
    std::uint8_t flags[kMaxListItems];
    for (std::size_t i = 0; i < kept; ++i) flags[i] = items[i].isBool() && items[i].toBool() ? 1 : 0;
    values.booleans(flags, items.size());
  } else if (first.isDouble()) {
    double numbers[kMaxListItems];
    for (std::size_t i = 0; i < kept; ++i) numbers[i] = items[i].isDouble() ? items[i].toDouble() : 0.0;
    values.reals(numbers, items.size());
  } else {
    values.other();
  }
}

void put_value(CaptureState& capture, ThreadState& state, ValueWriter& values, const c10::IValue& value) {
  if (value.isTensor()) {
    values.tensor(facts_of(capture, state, value.toTensor()));
  } else if (value.isNone()) {
    values.none();
  } else if (value.isInt()) {
    values.integer(value.toInt());
  } else if (value.isBool()) {
    values.boolean(value.toBool());
  } else if (value.isDouble()) {
    values.real(value.toDouble());
  } else if (value.isList()) {
    put_list(capture, state, values, value);
  } else if (value.isString()) {
    values.text(value.toStringRef());
  } else {
    values.other();
  }
}

// The next value at `at`, whatever it is. The writer says how far it came.
__attribute__((noinline)) ValueWriter put_any(CaptureState& capture, ThreadState& state, unsigned char* at,
                                              std::uint32_t room, const c10::IValue& item) noexcept {
  ValueWriter values(at, room);
  try {
    put_value(capture, state, values, item);
  } catch (...) {
    values.other();  // a tensor subclass that refuses to be looked at
  }
  return values;
}

// As ValueWriter::tensor. Returns the end.
inline unsigned char* write_tensor(unsigned char* at, const TensorFacts& facts) noexcept {
  const std::uint64_t header = std::uint64_t{static_cast<std::uint8_t>(ValueTag::kTensor)} |
                               std::uint64_t{facts.dtype} << 8 | std::uint64_t{facts.device_type} << 16 |
                               std::uint64_t{static_cast<std::uint8_t>(facts.device_index)} << 24 |
                               std::uint64_t{facts.ndim} << 32 | std::uint64_t{facts.flags} << 40;
  std::memcpy(at, &header, 8);
  std::memcpy(at + 8, &facts.id, 8);
  std::memcpy(at + 16, &facts.storage, 8);
  at += 24;
  const std::int64_t* const end = facts.dims + facts.ndim;
  for (const std::int64_t* dim = facts.dims; dim != end; ++dim, at += 8) std::memcpy(at, dim, 8);
  return at;
}
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a ValueHeader is written as one number");

inline unsigned char* write_scalar(unsigned char* at, ValueTag tag, const void* value) noexcept {
  const std::uint64_t header = static_cast<std::uint8_t>(tag);
  std::memcpy(at, &header, 8);
  std::memcpy(at + 8, value, 8);
  return at + 16;
}

// More than any tensor or scalar takes: 255 dimensions.
constexpr std::ptrdiff_t kAnyTensor = 24 + 8 * 255;

}  // namespace

__attribute__((flatten)) EncodedValues encode_values(CaptureState& capture, ThreadState& state,
                                                     unsigned char* to, std::uint32_t room,
                                                     const c10::IValue* items, std::size_t count) noexcept {
  unsigned char* at = to;
  unsigned char* const end = to + room;
  EncodedValues encoded;
  for (const c10::IValue* item = items; item != items + count; ++item) {
    if (__builtin_expect(end - at >= kAnyTensor, 1)) {
      if (item->isTensor()) {
        const c10::TensorImpl* impl = item->unsafeToTensorImpl();
        if (__builtin_expect(is_plain(*impl), 1)) {
          at = write_tensor(at, plain_facts_of(capture, state, *impl));
          ++encoded.count;
          continue;
        }
      } else if (item->isInt()) {
        const std::int64_t value = item->toInt();
        at = write_scalar(at, ValueTag::kInt, &value);
        ++encoded.count;
        continue;
      }
    }
    const ValueWriter values = put_any(capture, state, at, static_cast<std::uint32_t>(end - at), *item);
    at += values.bytes();
    encoded.count = static_cast<std::uint16_t>(encoded.count + values.count());
    encoded.cut |= values.cut();
    if (values.full()) break;
  }
  encoded.bytes = static_cast<std::uint32_t>(at - to);
  return encoded;
}

}  // namespace tensortap::probe
