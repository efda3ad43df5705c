#include "analyzers/candle/capabilities.h"

#include <initializer_list>

namespace tensortap::analyzers::candle {
namespace {

using format::Coverage;
using format::Severity;

// The schema that writers use now, also for a trace/9 input (§5.3).
constexpr const char* kValidation = "candle-graph/trace/10 validation";

struct CapabilityNames {
  std::string_view kind, key;
};
constexpr CapabilityNames kNames[kCapabilities] = {
    {"structural_trace", "structural_trace"},
    {"outer_wall_time", "outer_wall_time"},
    {"nested_host_time", "nested_host_time"},
    {"nested_device_time", "nested_device_time"},
    {"operations", "operation_coverage"},
    {"activations", "activation_coverage"},
    {"tensors", "tensor_coverage"},
    {"gradients", "gradient_coverage"},
    {"logical_memory", "logical_memory_coverage"},
    {"physical_memory", "physical_memory_coverage"},
    {"gpu_correlation", "gpu_correlation"},
    {"provenance_binding", "provenance_binding"},
};

CapabilityState invalid(const char* source, std::string reason) {
  return {Level::kInvalid, source, std::move(reason)};
}
CapabilityState unavailable(std::string reason) { return {Level::kUnavailable, "none", std::move(reason)}; }

// The common rule OBS of §5.3. `what`: "operator records".
CapabilityState observed(Coverage declared, std::uint64_t seen, const char* source, const std::string& what) {
  if (seen == 0 && declared == Coverage::kComplete) {
    return invalid(source, "complete " + what + " were declared, but none was recorded");
  }
  if (seen == 0) return unavailable("no " + what + " were recorded");
  if (declared == Coverage::kComplete) {
    return {Level::kComplete, source, "the capture declares its " + what + " complete"};
  }
  return {Level::kPartial, source,
          declared == Coverage::kPartial
              ? "the capture declares its " + what + " partial"
              : "there are " + what + ", but the capture declares no coverage of them"};
}

CapabilityState outer_wall_time(const CapabilityInputs& in) {
  if (!in.health->structurally_valid) {
    return invalid(kValidation, "the measured time cannot be told from a structurally invalid trace");
  }
  if (!in.health->capture_complete) {
    return unavailable("the capture failed, so the measured region has no whole time");
  }
  if (in.closed_measured_spans == 1) {
    return {Level::kComplete, "measured span", "one measured span was closed"};
  }
  return invalid("measured span", "a complete capture needs exactly one closed measured span");
}

CapabilityState nested_host_time(const CapabilityInputs& in) {
  if (!in.health->structurally_valid) {
    return invalid(kValidation, "span times of a structurally invalid trace cannot be relied on");
  }
  if (!in.health->capture_complete) return unavailable("the capture failed, so span times are not whole");
  return {Level::kComplete, "span wall intervals", "all spans have host times"};
}

// §2.2: complete activations need complete operations and something to recognise their outputs by.
bool breaks_activation_rule(const format::CaptureContract& contract) {
  if (contract.activations != Coverage::kComplete) return false;
  const bool recognises = contract.tensors != Coverage::kNone || contract.logical_memory != Coverage::kNone;
  return contract.operations != Coverage::kComplete || !recognises;
}

CapabilityState activations(const CapabilityInputs& in) {
  const format::CaptureContract& contract = in.meta->capture_contract;
  if (breaks_activation_rule(contract)) {
    return invalid("capture contract",
                   "complete activation coverage needs complete operations, and tensors or logical memory");
  }
  return observed(contract.activations, in.listed_activations, "activation category links",
                  "operations with activation outputs");
}

bool is_about_gradients(std::string_view code) {
  return code.substr(0, 9) == "gradient_" || code == "duplicate_gradient_event_id" ||
         code == "empty_gradient_event_id";
}

CapabilityState gradients(const CapabilityInputs& in) {
  const Coverage declared = in.meta->capture_contract.gradients;
  const char* source = "exact gradient contract";
  if (declared != Coverage::kComplete) {
    return observed(declared, in.health->coverage.gradients, "trace gradient events", "gradient records");
  }
  bool has_errors = false, has_warnings = false;
  for (const format::HealthTotal& total : in.health->totals) {
    if (!is_about_gradients(total.code)) continue;
    has_errors |= total.errors != 0;
    has_warnings |= total.warnings != 0;
  }
  if (has_errors) return invalid(source, "gradient records do not fit the gradient contract");
  if (has_warnings) {
    return {Level::kPartial, source, "the failed capture lacks gradients of the gradient contract"};
  }
  return {Level::kComplete, source, "every parameter of the gradient contract was recorded and fits it"};
}

CapabilityState gpu_correlation(const CapabilityInputs& in) {
  if (!in.labels_name_one_span_each) {
    return invalid("trace semantic labels", "the required labels do not name exactly one span each");
  }
  return unavailable("there is no Nsight input to correlate labels with");
}

void adjust(Capabilities& all, const format::Health& health) {
  const auto seven = {Capability::kNestedDeviceTime, Capability::kOperations, Capability::kActivations,
                      Capability::kTensors,          Capability::kGradients,  Capability::kLogicalMemory,
                      Capability::kGpuCorrelation};
  if (!health.structurally_valid) {
    for (const Capability c : seven) {
      if (all[c].available()) {
        all[c] =
            invalid(kValidation, "the trace is structurally invalid, so its records cannot be relied on");
      }
    }
  }
  if (health.capture_complete) return;
  for (const Capability c : seven) lower(all[c], "the capture failed");
  lower(all[Capability::kPhysicalMemory], "the capture failed");
  lower(all[Capability::kProvenanceBinding], "the capture failed");
}

}  // namespace

std::string_view level_name(Level level) {
  constexpr std::string_view kLevels[] = {"unavailable", "partial", "complete", "invalid"};
  return kLevels[static_cast<std::size_t>(level)];
}

std::string_view capability_kind(Capability capability) {
  return kNames[static_cast<std::size_t>(capability)].kind;
}
std::string_view capability_key(Capability capability) {
  return kNames[static_cast<std::size_t>(capability)].key;
}

Capabilities decide_capabilities(const CapabilityInputs& in) {
  const format::CaptureContract& contract = in.meta->capture_contract;
  const format::HealthCoverage& seen = in.health->coverage;
  const Coverage device_timing = contract.device_timing;  // an interval makes "none" partial in OBS, too
  Capabilities all;
  all[Capability::kStructuralTrace] =
      in.health->structurally_valid
          ? CapabilityState{Level::kComplete, kValidation, "the trace keeps all structural rules"}
          : invalid(kValidation, "the trace breaks structural rules; its health issues say which");
  all[Capability::kOuterWallTime] = outer_wall_time(in);
  all[Capability::kNestedHostTime] = nested_host_time(in);
  all[Capability::kNestedDeviceTime] =
      observed(device_timing, in.device_intervals, "device intervals", "device intervals");
  all[Capability::kOperations] =
      observed(contract.operations, seen.operations, "trace op events", "operation records");
  all[Capability::kActivations] = activations(in);
  all[Capability::kTensors] =
      observed(contract.tensors, seen.tensors, "trace tensor events", "tensor records");
  all[Capability::kGradients] = gradients(in);
  all[Capability::kLogicalMemory] =
      observed(contract.logical_memory, seen.memory_events, "storage lifetime events", "storage records");
  all[Capability::kPhysicalMemory] = observed(contract.physical_memory, seen.device_memory_samples,
                                              "device memory samples", "samples of device memory");
  all[Capability::kGpuCorrelation] = gpu_correlation(in);
  all[Capability::kProvenanceBinding] = unavailable("there is no Nsight input to bind to this run");
  adjust(all, *in.health);
  return all;
}

CapabilityState combine(const CapabilityState& a, const CapabilityState& b) {
  if (a.level == Level::kInvalid) return a;
  if (b.level == Level::kInvalid) return b;
  if (a.level == Level::kUnavailable) return a;
  if (b.level == Level::kUnavailable) return b;
  const bool complete = a.level == Level::kComplete && b.level == Level::kComplete;
  return {complete ? Level::kComplete : Level::kPartial, a.source + " + " + b.source,
          a.reason + "; " + b.reason};
}

void lower(CapabilityState& state, std::string_view why) {
  if (state.level != Level::kComplete) return;
  state.level = Level::kPartial;
  state.reason += "; ";
  state.reason += why;
}

}  // namespace tensortap::analyzers::candle
