// The spellings of trace/10's enums (specification §1.5): one table for writer, reader and reports.
//
//   enum_name(Step::kForward)                    // "forward"
//   Step step;  enum_from_name("forward", step)  // true
//
// Thread rules: constants. C++17, no dependency: used inside the job too.
#pragma once

#include <cstddef>
#include <string_view>

#include "format/event.h"

namespace tensortap::format {

// `names[i]` is the spelling of the enumerator with value i.
template <class Enum>
struct EnumNames;

template <>
struct EnumNames<Phase> {
  static constexpr std::string_view names[] = {"train", "infer"};
};
template <>
struct EnumNames<TimingMode> {
  static constexpr std::string_view names[] = {"host", "device_synchronized"};
};
template <>
struct EnumNames<SpanKind> {
  static constexpr std::string_view names[] = {"function", "op", "module"};
};
template <>
struct EnumNames<Step> {
  static constexpr std::string_view names[] = {"forward", "backward", "optimizer"};
};
template <>
struct EnumNames<MemoryAction> {
  static constexpr std::string_view names[] = {"alloc", "free"};
};
template <>
struct EnumNames<MemoryCategory> {
  static constexpr std::string_view names[] = {"parameter", "activation", "gradient", "optimizer", "other"};
};
template <>
struct EnumNames<GradientState> {
  static constexpr std::string_view names[] = {"present", "missing", "zero", "non_finite"};
};
template <>
struct EnumNames<Outcome> {
  static constexpr std::string_view names[] = {"complete", "failed"};
};
template <>
struct EnumNames<Coverage> {
  static constexpr std::string_view names[] = {"none", "partial", "complete"};
};
template <>
struct EnumNames<MeasurementScope> {
  static constexpr std::string_view names[] = {"unknown", "profiled_work", "production_equivalent"};
};
template <>
struct EnumNames<Expectation> {
  static constexpr std::string_view names[] = {"active", "inactive", "data_conditional"};
};
template <>
struct EnumNames<Edge::Kind> {
  static constexpr std::string_view names[] = {"call", "data"};
};

template <class Enum>
constexpr std::string_view enum_name(Enum value) {
  return EnumNames<Enum>::names[static_cast<std::size_t>(value)];
}

// False, and `value` as it was, when `name` is not exactly one of the spellings.
template <class Enum>
constexpr bool enum_from_name(std::string_view name, Enum& value) {
  std::size_t i = 0;
  for (std::string_view known : EnumNames<Enum>::names) {
    if (known == name) {
      value = static_cast<Enum>(i);
      return true;
    }
    ++i;
  }
  return false;
}

}  // namespace tensortap::format
