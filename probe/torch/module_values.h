// What a C++ module call was given and returned, as a tree of nodes (format/module_nodes.h), and the calls of
// module_enter and module_leave around it. Only what is a tensor, or holds tensors, is looked at.
//
// Part of nn_slots.cpp. A template for each signature of a forward, so each body is short.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "probe/core/capture.h"
#include "probe/core/mask_arguments.h"
#include "probe/core/node_writer.h"
#include "probe/core/output_stats.h"
#include "probe/core/tensor_reader.h"
#include "probe/torch/module_calls.h"
#include "probe/torch/module_settings.h"
#include "probe/torch/module_tensors.h"

namespace tensortap::probe {

template <class T>
inline constexpr bool is_tuple = false;
template <class... Items>
inline constexpr bool is_tuple<std::tuple<Items...>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<c10::optional<T>> = true;

inline void write_value(NodeWriter& nodes, const at::Tensor& tensor) noexcept {
  TensorFacts facts;
  if (tensor.defined() && read_tensor(tensor.unsafeGetTensorImpl(), facts)) {
    nodes.tensor(facts);
  } else {
    nodes.none();
  }
}

template <class... Items>
void write_value(NodeWriter& nodes, const std::tuple<Items...>& items) noexcept;

template <class T>
void write_value(NodeWriter& nodes, const T& value) noexcept {
  if constexpr (std::is_same_v<T, c10::optional<at::Tensor>>) {
    value.has_value() ? write_value(nodes, *value) : nodes.none();
  } else if constexpr (std::is_same_v<T, c10::optional<std::tuple<at::Tensor, at::Tensor>>>) {
    value.has_value() ? write_value(nodes, *value) : nodes.none();
  } else if constexpr (std::is_arithmetic_v<T>) {
    nodes.scalar(std::is_same_v<T, bool> ? "bool" : std::is_integral_v<T> ? "int" : "float");
  } else {
    nodes.object("object");
  }
}

template <class... Items>
void write_value(NodeWriter& nodes, const std::tuple<Items...>& items) noexcept {
  const NodeWriter::Place place = nodes.begin(format::ValueTag::kTuple);
  std::apply([&](const auto&... item) { (write_value(nodes, item), ...); }, items);
  nodes.end(place, sizeof...(Items));
}

template <class T>
void note_argument(const std::string& path, std::string_view type, std::uint32_t place, const T& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    if (!value.defined()) return;
    for (const MaskArgument& argument : kMaskArguments) {
      if (argument.place == place && takes_mask(argument, type))
        note_mask(path + "." + argument.name, value.unsafeGetTensorImpl());
    }
  }
}

// The masks that an asked-for attention module is given.
template <class... Args>
void note_masks(format::StrRef path, std::string_view type, const Args&... args) noexcept {
  try {
    const std::string text(interned_text(path));
    std::uint32_t place = 0;
    if (stats_wanted(text.c_str())) (note_argument(text, type, place++, args), ...);
  } catch (...) {  // out of memory
  }
}

// Not inlined: its buffer must not stand on the stack while the module runs.
template <class... Args>
__attribute__((noinline)) format::StrRef enter_module(const torch::nn::Module* module, std::string_view type,
                                                      const Args&... args) noexcept {
  bool undescribed = false;
  ModuleCall call = next_module_call(module, type, &undescribed);
  call.modes = static_cast<std::uint8_t>(format::kModeTrainingKnown |
                                         (module->is_training() ? format::kModeTraining : 0));
  unsigned char tail[2 * kNodeBytes];
  std::uint32_t used = 0;
  if (undescribed) {
    NodeWriter facts(tail, kNodeBytes);
    write_module_settings(facts, *module, type);
    used = facts.bytes();
    if (used != 0) call.tails |= format::kTailFacts;
  }
  NodeWriter nodes(tail + used, kNodeBytes);
  const NodeWriter::Place list = nodes.begin(format::ValueTag::kTuple);
  (write_value(nodes, args), ...);
  nodes.end(list, sizeof...(Args));
  nodes.begin(format::ValueTag::kMapping);
  nodes.string("");
  call.tails |= nodes.full() ? format::kArgsCut : format::kTailArgs;
  call.tail = tail;
  call.tail_bytes = used + nodes.bytes();
  module_enter(call);
  if (undescribed) report_module_tensors(*module, call);
  if (stats_configured()) note_masks(call.path, type, args...);
  return call.path;
}

// Statistics of every tensor in what a module returned (probe/core/output_stats.h), by the names that a
// Python module's have: the path, and the place in a tuple behind it.
template <class T>
void note_value_stats(const std::string& label, const T& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    if (value.defined()) note_stats(label, value.unsafeGetTensorImpl());
  } else if constexpr (is_optional<T>) {
    if (value.has_value()) note_value_stats(label, *value);
  } else if constexpr (is_tuple<T>) {
    std::size_t place = 0;
    std::apply(
        [&](const auto&... item) { (note_value_stats(label + "." + std::to_string(place++), item), ...); },
        value);
  }
}

template <class Result>
void note_output(format::StrRef path, const Result& result) noexcept {
  try {
    const std::string label(interned_text(path));
    if (stats_wanted(label.c_str())) note_value_stats(label, result);
  } catch (...) {  // out of memory
  }
}

template <class Result>
__attribute__((noinline)) void leave_module(const void* module, format::StrRef path,
                                            const Result& result) noexcept {
  if (stats_configured()) note_output(path, result);
  unsigned char output[kNodeBytes];
  NodeWriter nodes(output, sizeof output);
  write_value(nodes, result);
  module_leave(module, {output, nodes.bytes(), nodes.full(), false});
}

}  // namespace tensortap::probe
