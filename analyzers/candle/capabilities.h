// How far each kind of evidence in a trace may be relied on (trace/10 specification §5.2, §5.3): what the
// capture contract claims, weighed against what was seen and against structural health.
//
//   CapabilityInputs in;  in.meta = &meta;  in.health = &health;  in.device_intervals = 3;  …
//   const Capabilities all = decide_capabilities(in);
//   all[Capability::kOperations].level == Level::kComplete
//
// Thread rules: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/event.h"
#include "format/health/health.h"

namespace tensortap::analyzers::candle {

enum class Level : std::uint8_t { kUnavailable, kPartial, kComplete, kInvalid };
std::string_view level_name(Level level);

struct CapabilityState {
  Level level = Level::kUnavailable;
  std::string source = "none";
  std::string reason;  // one sentence without a full stop

  bool available() const { return level == Level::kPartial || level == Level::kComplete; }
};

enum class Capability : std::uint8_t {
  kStructuralTrace,
  kOuterWallTime,
  kNestedHostTime,
  kNestedDeviceTime,
  kOperations,
  kActivations,
  kTensors,
  kGradients,
  kLogicalMemory,
  kPhysicalMemory,
  kGpuCorrelation,
  kProvenanceBinding,
};
inline constexpr std::size_t kCapabilities = 12;

std::string_view capability_kind(Capability capability);  // as in a finding's `requires`: "operations"
std::string_view capability_key(Capability capability);   // of the document's object: "operation_coverage"

struct Capabilities {
  std::array<CapabilityState, kCapabilities> states;
  CapabilityState& operator[](Capability c) { return states[static_cast<std::size_t>(c)]; }
  const CapabilityState& operator[](Capability c) const { return states[static_cast<std::size_t>(c)]; }
};

struct CapabilityInputs {
  const format::Meta* meta = nullptr;
  const format::Health* health = nullptr;
  std::uint64_t device_intervals = 0;
  std::uint64_t closed_measured_spans = 0;
  std::uint64_t listed_activations = 0;   // operations of the activation profile
  bool labels_name_one_span_each = true;  // the contract's required labels: none repeats, each names one span
};

// Without Nsight input.
Capabilities decide_capabilities(const CapabilityInputs& in);

// `a` and `b` together, as a state of the activation profile (§5.6).
CapabilityState combine(const CapabilityState& a, const CapabilityState& b);
// Complete becomes partial; other levels stay. `why` is added to the reason then.
void lower(CapabilityState& state, std::string_view why);

}  // namespace tensortap::analyzers::candle
