// The `provenance` member: the run fields of the meta record (trace/10 specification §5.1, §2.1-§2.5).
#include "analyzers/candle/document_parts.h"
#include "format/event_names.h"

namespace tensortap::analyzers::candle {
namespace {

using format::enum_name;

void write_texts(JsonOut& json, const std::vector<std::string>& texts) {
  json.begin_array();
  for (const std::string& text : texts) json.text(text);
  json.end_array();
}

void write_gradient_contract(JsonOut& json, const format::GradientContract& contract) {
  json.begin_object();
  json.key("expected");
  json.begin_array();
  for (const auto& entry : contract.expected) {
    json.begin_object();
    json.member("family", entry.family);
    json.member("key", entry.key);
    json.member("root", entry.root);
    json.end_object();
  }
  json.end_array();
  json.key("families");
  json.begin_array();
  for (const auto& family : contract.families) {
    json.begin_object();
    json.member("expectation", enum_name(family.expectation));
    json.member("family", family.family);
    json.member("min_present", family.min_present);
    json.end_object();
  }
  json.end_array();
  json.member("manifest_sha256", contract.manifest_sha256);
  json.end_object();
}

void write_labels_unless_empty(JsonOut& json, const char* key, const std::vector<std::string>& labels) {
  if (labels.empty()) return;
  json.key(key);
  write_texts(json, labels);
}

void write_contract(JsonOut& json, const format::CaptureContract& contract) {
  json.begin_object();
  json.member("activations", enum_name(contract.activations));
  write_labels_unless_empty(json, "cpu_only_semantic_labels", contract.cpu_only_semantic_labels);
  json.member("device_timing", enum_name(contract.device_timing));
  write_labels_unless_empty(json, "gpu_expected_semantic_labels", contract.gpu_expected_semantic_labels);
  if (contract.gradient_contract) {
    json.key("gradient_contract");
    write_gradient_contract(json, *contract.gradient_contract);
  }
  json.member("gradients", enum_name(contract.gradients));
  json.member("logical_memory", enum_name(contract.logical_memory));
  json.member("measurement_scope", enum_name(contract.measurement_scope));
  json.member("operations", enum_name(contract.operations));
  json.member("physical_memory", enum_name(contract.physical_memory));
  json.key("required_semantic_labels");
  write_texts(json, contract.required_semantic_labels);
  json.member("tensors", enum_name(contract.tensors));
  json.end_object();
}

void write_identity(JsonOut& json, const format::ComparisonIdentity& identity) {
  json.begin_object();
  json.member("accumulation_steps", identity.accumulation_steps);
  json.member("config_id", identity.config_id);
  json.member("data_id", identity.data_id);
  json.member("device_state", identity.device_state);
  if (identity.implementation_id) json.member("implementation_id", *identity.implementation_id);
  json.member("model_id", identity.model_id);
  if (identity.pair_id) json.member("pair_id", *identity.pair_id);
  json.member("physical_batch", identity.physical_batch);
  json.member("precision", identity.precision);
  json.member("seed_policy", identity.seed_policy);
  json.member("workload_id", identity.workload_id);
  json.end_object();
}

}  // namespace

void write_provenance(JsonOut& json, const format::Meta& meta) {
  json.begin_object();
  if (meta.candle_version) json.member("candle_version", *meta.candle_version);
  json.key("capture_contract");
  write_contract(json, meta.capture_contract);
  json.member("capture_step", meta.capture_step);
  if (meta.comparison_identity) {
    json.key("comparison_identity");
    write_identity(json, *meta.comparison_identity);
  }
  json.member("correlation_id", meta.correlation_id);
  json.member("device", meta.device);
  json.member("entrypoint", meta.entrypoint);
  json.member("measured_region_device_synchronized", meta.measured_region_device_synchronized);
  json.member("phase", enum_name(meta.phase));
  json.member("run_id", meta.run_id);
  json.key("tags");
  json.begin_object();
  for (const auto& [key, value] : meta.tags) json.member(key, value);
  json.end_object();
  json.member("timestamp", meta.timestamp);
  json.member("timing_mode", enum_name(meta.timing_mode));
  json.member("warmup_steps", meta.warmup_steps);
  json.end_object();
}

}  // namespace tensortap::analyzers::candle
