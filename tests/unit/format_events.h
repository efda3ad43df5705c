// Random events of all twelve kinds, and what makes two events equal: for tests of writer and reader.
#pragma once

#include <bit>
#include <cmath>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "format/event.h"

namespace tensortap::format {

// ---- Equality

inline auto parts(const GradientContract::Entry& e) { return std::tie(e.root, e.key, e.family); }
inline auto parts(const GradientContract::Family& e) {
  return std::tie(e.family, e.expectation, e.min_present);
}
inline bool operator==(const GradientContract::Entry& a, const GradientContract::Entry& b) {
  return parts(a) == parts(b);
}
inline bool operator==(const GradientContract::Family& a, const GradientContract::Family& b) {
  return parts(a) == parts(b);
}
inline auto parts(const GradientContract& e) { return std::tie(e.manifest_sha256, e.expected, e.families); }
inline bool operator==(const GradientContract& a, const GradientContract& b) { return parts(a) == parts(b); }
inline auto parts(const CaptureContract& e) {
  return std::tie(e.measurement_scope, e.operations, e.activations, e.tensors, e.gradients,
                  e.gradient_contract, e.logical_memory, e.physical_memory, e.device_timing,
                  e.required_semantic_labels, e.gpu_expected_semantic_labels, e.cpu_only_semantic_labels);
}
inline bool operator==(const CaptureContract& a, const CaptureContract& b) { return parts(a) == parts(b); }
inline auto parts(const ComparisonIdentity& e) {
  return std::tie(e.implementation_id, e.workload_id, e.model_id, e.config_id, e.data_id, e.seed_policy,
                  e.precision, e.device_state, e.physical_batch, e.accumulation_steps, e.pair_id);
}
inline bool operator==(const ComparisonIdentity& a, const ComparisonIdentity& b) {
  return parts(a) == parts(b);
}

inline auto parts(const Meta& e) {
  return std::tie(e.schema, e.run_id, e.correlation_id, e.entrypoint, e.phase, e.timestamp, e.capture_step,
                  e.warmup_steps, e.device, e.measured_region_device_synchronized, e.timing_mode,
                  e.capture_contract, e.comparison_identity, e.tags, e.candle_version, e.ext);
}
inline auto parts(const SpanStart& e) {
  return std::tie(e.id, e.parent_id, e.name, e.start_ns, e.span_kind, e.measured, e.step, e.ext);
}
inline auto parts(const SpanEnd& e) { return std::tie(e.id, e.duration_ns, e.ext); }
inline auto parts(const Op& e) {
  return std::tie(e.span_id, e.op_name, e.inputs, e.output, e.shape, e.dtype, e.device, e.duration_ns,
                  e.timestamp_ns, e.output_dense_bytes, e.input_dense_bytes, e.ext);
}
inline auto parts(const Tensor& e) {
  return std::tie(e.span_id, e.tensor_id, e.label, e.shape, e.dtype, e.device, e.requires_grad, e.dense_bytes,
                  e.category, e.ext);
}
// Floats by their bits: -0.0 is not 0.0 here.
inline auto parts(const TensorStats& e) {
  return std::make_tuple(e.span_id, e.label, e.shape, e.dtype, e.elements, e.non_finite,
                         std::bit_cast<std::uint64_t>(e.rms), std::bit_cast<std::uint64_t>(e.abs_max),
                         std::bit_cast<std::uint64_t>(e.mean), e.ext);
}
inline auto parts(const Memory& e) {
  return std::tie(e.timestamp_ns, e.storage_id, e.tensor_id, e.span_id, e.op_name, e.device, e.bytes,
                  e.action, e.shape, e.dtype, e.category, e.ext);
}
inline auto parts(const DeviceMemory& e) {
  return std::tie(e.timestamp_ns, e.device, e.used_bytes, e.free_bytes, e.reserved_bytes, e.capacity_bytes,
                  e.ext);
}
inline auto parts(const DeviceInterval& e) {
  return std::tie(e.span_id, e.device, e.stream_id, e.clock_id, e.backend, e.start_ns, e.duration_ns, e.ext);
}
inline auto parts(const Gradient& e) { return std::tie(e.event_id, e.root, e.key, e.state, e.norm, e.ext); }
inline auto parts(const Edge& e) { return std::tie(e.edge_kind, e.from, e.to, e.host_duration_ns, e.ext); }
inline auto parts(const Terminal& e) { return std::tie(e.outcome, e.timestamp_ns, e.reason, e.ext); }

// ---- Random values

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool coin() { return below(2) == 0; }
  template <class Enum>
  Enum one_of(int count) {
    return static_cast<Enum>(below(static_cast<std::uint64_t>(count)));
  }

  // Edges of the range as often as anything between.
  std::uint64_t integer() {
    switch (below(4)) {
      case 0:
        return below(10);
      case 1:
        return ~std::uint64_t{0} - below(3);
      default:
        return random_() >> below(64);
    }
  }
  double number() {
    static constexpr double kSpecial[] = {0.0,  -0.0, 1.0,  5e-324, 1.7976931348623157e308,
                                          1e15, 1e16, 1e-5, 1e-6,   0.1};
    if (below(3) == 0) return kSpecial[below(std::size(kSpecial))];
    for (;;) {
      const double value = std::bit_cast<double>(random_());
      if (std::isfinite(value)) return value;
    }
  }
  std::string owned_text() {
    static constexpr std::string_view kPieces[] = {
        "a", "aten::mm",         "\"",           "\\", "/", "\n", "\t",      "\b", "\x1f", "\x7f",
        "é", "\xF0\x9F\x94\xA5", "\xE2\x80\xA8", "{",  "}", " ",  "\\u0041", ":",  "kind", "\r",
        "\f"};
    std::string text;
    for (std::uint64_t i = below(6); i > 0; --i) {
      if (below(12) == 0) {
        text += '\0';
      } else {
        text += kPieces[below(std::size(kPieces))];
      }
    }
    if (below(40) == 0) text.append(below(5000), 'x');
    return text;
  }
  // Any bytes: mostly not UTF-8, but often nearly.
  std::string hostile_bytes() {
    static constexpr std::string_view kPieces[] = {"a",
                                                   "\"",
                                                   "\\",
                                                   "\xC3",
                                                   "\xC3\xA9",
                                                   "\xE2\x82",
                                                   "\xED\xA0\x80",
                                                   "\xC0\xAF",
                                                   "\xE0\x80",
                                                   "\xF0\x9F",
                                                   "\xF4\x90",
                                                   "\xF0\x8F\xBF\xBF",
                                                   "\xF4\x8F\xBF\xBF",
                                                   "\xF8\x88",
                                                   "\xFF",
                                                   "\x80",
                                                   "\xEF\xBB\xBF"};
    std::string bytes;
    for (std::uint64_t i = below(12); i > 0; --i) {
      if (coin()) {
        bytes += static_cast<char>(below(256));
      } else {
        bytes += kPieces[below(std::size(kPieces))];
      }
    }
    return bytes;
  }
  // Lives as long as this object.
  std::string_view text() { return texts_.emplace_back(owned_text()); }
  std::string_view ext() {
    static constexpr std::string_view kExts[] = {
        "",
        "",
        R"({})",
        R"({"thread":3})",
        R"({ "a" : [ 1 , -2.5e3, {"b":null}, "x\"}\u00e9" ] , "c" : true })",
        R"({"args":[{"shape":[64,32],"dtype":"f32"},[],[[[]]],1e300,-0,0.0]})",
        R"({"":{"":{"":"}"}}})"};
    return kExts[below(std::size(kExts))];
  }
  template <class T, class Make>
  std::optional<T> maybe(Make make) {
    return coin() ? std::optional<T>(make()) : std::nullopt;
  }
  template <class T, class Make>
  std::vector<T> list(Make make) {
    std::vector<T> items(below(5));
    for (T& item : items) item = make();
    return items;
  }
  std::vector<std::uint64_t> shape() {
    return list<std::uint64_t>([&] { return integer(); });
  }

  Meta meta();
  SpanStart span_start() {
    return {text(), maybe<std::string_view>([&] { return text(); }), text(), integer(), one_of<SpanKind>(3),
            coin(), maybe<Step>([&] { return one_of<Step>(3); }),    ext()};
  }
  SpanEnd span_end() { return {text(), integer(), ext()}; }
  Op op() {
    return {text(),
            text(),
            list<std::string_view>([&] { return text(); }),
            maybe<std::string_view>([&] { return text(); }),
            shape(),
            text(),
            text(),
            integer(),
            integer(),
            maybe<std::uint64_t>([&] { return integer(); }),
            integer(),
            ext()};
  }
  Tensor tensor() {
    return {text(),
            text(),
            maybe<std::string_view>([&] { return text(); }),
            shape(),
            text(),
            text(),
            coin(),
            maybe<std::uint64_t>([&] { return integer(); }),
            one_of<MemoryCategory>(5),
            ext()};
  }
  TensorStats tensor_stats() {
    return {text(), text(), shape(), text(), integer(), integer(), number(), number(), number(), ext()};
  }
  Memory memory() {
    return {integer(),
            text(),
            text(),
            text(),
            maybe<std::string_view>([&] { return text(); }),
            text(),
            integer(),
            one_of<MemoryAction>(2),
            shape(),
            text(),
            one_of<MemoryCategory>(5),
            ext()};
  }
  DeviceMemory device_memory() {
    const auto bytes = [&] { return maybe<std::uint64_t>([&] { return integer(); }); };
    return {integer(), text(), bytes(), bytes(), bytes(), bytes(), ext()};
  }
  DeviceInterval device_interval() {
    return {text(), text(), text(), text(), text(), integer(), integer(), ext()};
  }
  Gradient gradient() {
    return {text(), text(), text(), one_of<GradientState>(4), maybe<double>([&] { return number(); }), ext()};
  }
  Edge edge() {
    const auto kind = one_of<Edge::Kind>(2);
    return {kind, text(), text(), kind == Edge::Kind::kCall ? integer() : 0, ext()};
  }
  Terminal terminal() {
    return {one_of<Outcome>(2), integer(), maybe<std::string_view>([&] { return text(); }), ext()};
  }
  // One event of each kind, of kind number `i`, of any kind: shown to a generic function.
  template <class Show>
  void each_kind(Show&& show) {
    for (std::uint64_t i = 0; i < 12; ++i) kind(i, show);
  }
  template <class Show>
  void any_kind(Show&& show) {
    kind(below(12), show);
  }
  template <class Show>
  void kind(std::uint64_t i, Show&& show) {
    switch (i) {
      case 0:
        return show(meta());
      case 1:
        return show(span_start());
      case 2:
        return show(span_end());
      case 3:
        return show(op());
      case 4:
        return show(tensor());
      case 5:
        return show(tensor_stats());
      case 6:
        return show(memory());
      case 7:
        return show(device_memory());
      case 8:
        return show(device_interval());
      case 9:
        return show(gradient());
      case 10:
        return show(edge());
      default:
        return show(terminal());
    }
  }

 private:
  std::mt19937_64 random_;
  std::deque<std::string> texts_;
};

inline Meta RandomEvents::meta() {
  Meta meta;
  meta.schema = owned_text();
  meta.run_id = owned_text();
  meta.correlation_id = owned_text();
  meta.entrypoint = owned_text();
  meta.phase = one_of<Phase>(2);
  meta.timestamp = owned_text();
  meta.capture_step = integer();
  meta.warmup_steps = integer();
  meta.device = owned_text();
  meta.measured_region_device_synchronized = coin();
  meta.timing_mode = one_of<TimingMode>(2);
  CaptureContract& contract = meta.capture_contract;
  contract.measurement_scope = one_of<MeasurementScope>(3);
  for (Coverage* coverage :
       {&contract.operations, &contract.activations, &contract.tensors, &contract.gradients,
        &contract.logical_memory, &contract.physical_memory, &contract.device_timing}) {
    *coverage = one_of<Coverage>(3);
  }
  if (coin()) {
    GradientContract& gradients = contract.gradient_contract.emplace();
    gradients.manifest_sha256 = owned_text();
    gradients.expected = list<GradientContract::Entry>([&] {
      return GradientContract::Entry{owned_text(), owned_text(), owned_text()};
    });
    gradients.families = list<GradientContract::Family>([&] {
      return GradientContract::Family{owned_text(), one_of<Expectation>(3), integer()};
    });
  }
  for (auto* labels : {&contract.required_semantic_labels, &contract.gpu_expected_semantic_labels,
                       &contract.cpu_only_semantic_labels}) {
    *labels = list<std::string>([&] { return owned_text(); });
  }
  if (coin()) {
    ComparisonIdentity& identity = meta.comparison_identity.emplace();
    identity.implementation_id = maybe<std::string>([&] { return owned_text(); });
    for (std::string* text :
         {&identity.workload_id, &identity.model_id, &identity.config_id, &identity.data_id,
          &identity.seed_policy, &identity.precision, &identity.device_state}) {
      *text = owned_text();
    }
    identity.physical_batch = integer();
    identity.accumulation_steps = integer();
    identity.pair_id = maybe<std::string>([&] { return owned_text(); });
  }
  for (std::uint64_t i = below(4); i > 0; --i) meta.tags[owned_text()] = owned_text();
  meta.candle_version = maybe<std::string>([&] { return owned_text(); });
  meta.ext = ext();
  return meta;
}

}  // namespace tensortap::format
