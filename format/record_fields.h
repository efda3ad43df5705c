// Which fields each record and each object in it has (specification §2), as tables for the reader: name,
// whether it must be there, and the member that takes it. How a member is read follows from its type
// (internal to line_reader.cpp).
//
//   template <> inline constexpr auto kFieldsOf<SpanEnd> = std::array{
//       tag<SpanEnd>("kind"), required<&SpanEnd::id>("id"), defaulted<&SpanEnd::duration_ns>("duration_ns")};
//
// A nullable field is a `defaulted` one whose member is a std::optional.
#pragma once

#include <array>
#include <string_view>

#include "format/event.h"
#include "format/json_fields.h"

namespace tensortap::format {

template <class Owner>
struct FieldSpec {
  FieldName name;
  // Reads the value at which `json` stands into `owner`, an object at nesting depth `depth`. Null: the field
  // says nothing but what was known.
  bool (*read)(Json& json, std::string_view name, Owner& owner, int depth);
};

template <class Owner, class Member>
Owner owner_of(Member Owner::*);
template <auto kMember>
using OwnerOf = decltype(owner_of(kMember));

template <auto kMember>
bool read_member(Json& json, std::string_view name, OwnerOf<kMember>& owner, int depth);

template <auto kMember>
constexpr FieldSpec<OwnerOf<kMember>> required(std::string_view name) {
  return {{name, true}, &read_member<kMember>};
}
template <auto kMember>
constexpr FieldSpec<OwnerOf<kMember>> defaulted(std::string_view name) {
  return {{name, false}, &read_member<kMember>};
}
template <class Owner>
constexpr FieldSpec<Owner> tag(std::string_view name) {
  return {{name, true}, nullptr};
}

template <class Owner>
inline constexpr int kFieldsOf = 0;  // no table: the type is no object of trace/10

template <>
inline constexpr auto kFieldsOf<GradientContract::Entry> = std::array{
    required<&GradientContract::Entry::root>("root"),
    required<&GradientContract::Entry::key>("key"),
    required<&GradientContract::Entry::family>("family"),
};

template <>
inline constexpr auto kFieldsOf<GradientContract::Family> = std::array{
    required<&GradientContract::Family::family>("family"),
    required<&GradientContract::Family::expectation>("expectation"),
    required<&GradientContract::Family::min_present>("min_present"),
};

template <>
inline constexpr auto kFieldsOf<GradientContract> = std::array{
    required<&GradientContract::manifest_sha256>("manifest_sha256"),
    required<&GradientContract::expected>("expected"),
    required<&GradientContract::families>("families"),
};

template <>
inline constexpr auto kFieldsOf<CaptureContract> = std::array{
    required<&CaptureContract::measurement_scope>("measurement_scope"),
    required<&CaptureContract::operations>("operations"),
    defaulted<&CaptureContract::activations>("activations"),
    defaulted<&CaptureContract::tensors>("tensors"),
    defaulted<&CaptureContract::gradients>("gradients"),
    defaulted<&CaptureContract::gradient_contract>("gradient_contract"),
    required<&CaptureContract::logical_memory>("logical_memory"),
    required<&CaptureContract::physical_memory>("physical_memory"),
    required<&CaptureContract::device_timing>("device_timing"),
    defaulted<&CaptureContract::required_semantic_labels>("required_semantic_labels"),
    defaulted<&CaptureContract::gpu_expected_semantic_labels>("gpu_expected_semantic_labels"),
    defaulted<&CaptureContract::cpu_only_semantic_labels>("cpu_only_semantic_labels"),
};

template <>
inline constexpr auto kFieldsOf<ComparisonIdentity> = std::array{
    defaulted<&ComparisonIdentity::implementation_id>("implementation_id"),
    required<&ComparisonIdentity::workload_id>("workload_id"),
    required<&ComparisonIdentity::model_id>("model_id"),
    required<&ComparisonIdentity::config_id>("config_id"),
    required<&ComparisonIdentity::data_id>("data_id"),
    required<&ComparisonIdentity::seed_policy>("seed_policy"),
    required<&ComparisonIdentity::physical_batch>("physical_batch"),
    required<&ComparisonIdentity::accumulation_steps>("accumulation_steps"),
    required<&ComparisonIdentity::precision>("precision"),
    required<&ComparisonIdentity::device_state>("device_state"),
    defaulted<&ComparisonIdentity::pair_id>("pair_id"),
};

template <>
inline constexpr auto kFieldsOf<Meta> = std::array{
    tag<Meta>("kind"),
    required<&Meta::schema>("schema"),
    required<&Meta::run_id>("run_id"),
    required<&Meta::correlation_id>("correlation_id"),
    required<&Meta::entrypoint>("entrypoint"),
    required<&Meta::phase>("phase"),
    required<&Meta::timestamp>("timestamp"),
    required<&Meta::capture_step>("capture_step"),
    required<&Meta::warmup_steps>("warmup_steps"),
    required<&Meta::device>("device"),
    defaulted<&Meta::measured_region_device_synchronized>("measured_region_device_synchronized"),
    required<&Meta::timing_mode>("timing_mode"),
    required<&Meta::capture_contract>("capture_contract"),
    defaulted<&Meta::comparison_identity>("comparison_identity"),
    required<&Meta::tags>("tags"),
    defaulted<&Meta::candle_version>("candle_version"),
};

template <>
inline constexpr auto kFieldsOf<SpanStart> = std::array{
    tag<SpanStart>("kind"),
    required<&SpanStart::id>("id"),
    defaulted<&SpanStart::parent_id>("parent_id"),
    required<&SpanStart::name>("name"),
    required<&SpanStart::start_ns>("start_ns"),
    required<&SpanStart::span_kind>("span_kind"),
    defaulted<&SpanStart::measured>("measured"),
    defaulted<&SpanStart::step>("step"),
};

template <>
inline constexpr auto kFieldsOf<SpanEnd> = std::array{
    tag<SpanEnd>("kind"),
    required<&SpanEnd::id>("id"),
    defaulted<&SpanEnd::duration_ns>("duration_ns"),
};

template <>
inline constexpr auto kFieldsOf<Op> = std::array{
    tag<Op>("kind"),
    required<&Op::span_id>("span_id"),
    required<&Op::op_name>("op_name"),
    defaulted<&Op::inputs>("inputs"),
    defaulted<&Op::output>("output"),
    required<&Op::shape>("shape"),
    required<&Op::dtype>("dtype"),
    required<&Op::device>("device"),
    required<&Op::duration_ns>("duration_ns"),
    defaulted<&Op::timestamp_ns>("timestamp_ns"),
    defaulted<&Op::output_dense_bytes>("output_dense_bytes"),
    required<&Op::input_dense_bytes>("input_dense_bytes"),
};

template <>
inline constexpr auto kFieldsOf<Tensor> = std::array{
    tag<Tensor>("kind"),
    required<&Tensor::span_id>("span_id"),
    required<&Tensor::tensor_id>("tensor_id"),
    defaulted<&Tensor::label>("label"),
    required<&Tensor::shape>("shape"),
    required<&Tensor::dtype>("dtype"),
    required<&Tensor::device>("device"),
    defaulted<&Tensor::requires_grad>("requires_grad"),
    defaulted<&Tensor::dense_bytes>("dense_bytes"),
    defaulted<&Tensor::category>("category"),
};

template <>
inline constexpr auto kFieldsOf<TensorStats> = std::array{
    tag<TensorStats>("kind"),
    required<&TensorStats::span_id>("span_id"),
    required<&TensorStats::label>("label"),
    required<&TensorStats::shape>("shape"),
    required<&TensorStats::dtype>("dtype"),
    required<&TensorStats::elements>("elements"),
    required<&TensorStats::non_finite>("non_finite"),
    required<&TensorStats::rms>("rms"),
    required<&TensorStats::abs_max>("abs_max"),
    required<&TensorStats::mean>("mean"),
};

template <>
inline constexpr auto kFieldsOf<Memory> = std::array{
    tag<Memory>("kind"),
    required<&Memory::timestamp_ns>("timestamp_ns"),
    required<&Memory::storage_id>("storage_id"),
    required<&Memory::tensor_id>("tensor_id"),
    required<&Memory::span_id>("span_id"),
    defaulted<&Memory::op_name>("op_name"),
    required<&Memory::device>("device"),
    required<&Memory::bytes>("bytes"),
    required<&Memory::action>("action"),
    defaulted<&Memory::shape>("shape"),
    required<&Memory::dtype>("dtype"),
    defaulted<&Memory::category>("category"),
};

template <>
inline constexpr auto kFieldsOf<DeviceMemory> = std::array{
    tag<DeviceMemory>("kind"),
    required<&DeviceMemory::timestamp_ns>("timestamp_ns"),
    required<&DeviceMemory::device>("device"),
    defaulted<&DeviceMemory::used_bytes>("used_bytes"),
    defaulted<&DeviceMemory::free_bytes>("free_bytes"),
    defaulted<&DeviceMemory::reserved_bytes>("reserved_bytes"),
    defaulted<&DeviceMemory::capacity_bytes>("capacity_bytes"),
};

template <>
inline constexpr auto kFieldsOf<DeviceInterval> = std::array{
    tag<DeviceInterval>("kind"),
    required<&DeviceInterval::span_id>("span_id"),
    required<&DeviceInterval::device>("device"),
    required<&DeviceInterval::stream_id>("stream_id"),
    required<&DeviceInterval::clock_id>("clock_id"),
    required<&DeviceInterval::backend>("backend"),
    required<&DeviceInterval::start_ns>("start_ns"),
    required<&DeviceInterval::duration_ns>("duration_ns"),
};

template <>
inline constexpr auto kFieldsOf<Gradient> = std::array{
    tag<Gradient>("kind"),
    required<&Gradient::event_id>("event_id"),
    required<&Gradient::root>("root"),
    required<&Gradient::key>("key"),
    required<&Gradient::state>("state"),
    defaulted<&Gradient::norm>("norm"),
};

// The fields of an edge depend on its edge_kind; those of the other kind are unknown fields.
inline constexpr auto kCallEdgeFields = std::array{
    tag<Edge>("kind"),
    tag<Edge>("edge_kind"),
    required<&Edge::from>("from_span"),
    required<&Edge::to>("to_span"),
    required<&Edge::host_duration_ns>("host_duration_ns"),
};
inline constexpr auto kDataEdgeFields = std::array{
    tag<Edge>("kind"),
    tag<Edge>("edge_kind"),
    required<&Edge::from>("from_tensor"),
    required<&Edge::to>("to_tensor"),
};

template <>
inline constexpr auto kFieldsOf<Terminal> = std::array{
    tag<Terminal>("kind"),
    required<&Terminal::outcome>("outcome"),
    required<&Terminal::timestamp_ns>("timestamp_ns"),
    defaulted<&Terminal::reason>("reason"),
};

}  // namespace tensortap::format
