// The `activations` member of summary/6: the whole profile (trace/10 specification §5.6).
#include "analyzers/candle/document_parts.h"

namespace tensortap::analyzers::candle {
namespace {

constexpr const char* kDefinition =
    "operations inside the measured region whose output tensor is recorded as an activation, or to which the "
    "allocation of an activation's storage is charged";

std::string decimal(ByteNanoseconds value) {
  if (value == 0) return "0";
  std::string digits;
  for (; value != 0; value /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  return digits;
}

void write_names(JsonOut& json, const Evidence& evidence, const char* key, ShapeId set) {
  json.key(key);
  json.begin_array();
  for (const std::uint64_t name : evidence.tables().shapes.get(set)) {
    json.text(evidence.tables().names.text(static_cast<NameId>(name)));
  }
  json.end_array();
}

void write_device_timings(JsonOut& json, const Evidence& evidence, std::uint32_t span) {
  json.key("device_timings");
  json.begin_array();
  evidence.timing().for_each_row_of(span, [&](const DeviceTiming::SpanRow& row) {
    json.begin_object();
    write_names(json, evidence, "backends", row.backends);
    json.member("busy_ns", row.busy_ns);
    json.member("clock_id", evidence.tables().names.text(row.clock));
    json.member("device", evidence.tables().names.text(row.device));
    json.member("interval_count", row.interval_count);
    write_names(json, evidence, "streams", row.streams);
    json.end_object();
  });
  json.end_array();
}

void write_operation(JsonOut& json, const Evidence& evidence, const ActivationOp& op) {
  const TraceTables& tables = evidence.tables();
  const OpRow row = evidence.ops()[op.op];
  json.begin_object();
  json.key("classification_sources");
  json.begin_array();
  if (op.by_tensor) json.text("tensor_output");
  if (op.by_storage) json.text("logical_storage");
  json.end_array();
  if (row.has_dense_bytes) json.member("dense_output_bytes", row.dense_bytes);
  json.member("device", tables.names.text(row.device));
  if (op.has_device_rows) write_device_timings(json, evidence, row.span);
  json.member("dtype", tables.names.text(row.dtype));
  json.member("id", evidence.activations().id(op));
  if (op.knows_storage) json.member("logical_allocated_bytes", op.allocated_bytes);
  if (op.knows_times) {
    json.member("logical_byte_nanoseconds", decimal(op.byte_ns));
    json.member("logical_retained_bytes_at_measured_end", op.retained_bytes);
  }
  if (op.knows_storage) json.member("logical_storage_count", op.storage_count);
  if (op.knows_times) json.member("logical_storage_live_duration_ns", op.live_ns);
  json.member("name", tables.names.text(row.name));
  json.member("observed_host_duration_ns", row.duration_ns);
  json.member("op_index", std::uint64_t{row.index});
  if (row.output != kNoId) json.member("output_tensor_id", tables.tensors.text(row.output));
  json.key("shape");
  json.numbers(tables.shapes.get(row.shape));
  json.member("span_id", tables.spans.text(row.span));
  json.end_object();
}

}  // namespace

void write_activations(JsonOut& json, const Evidence& evidence) {
  const ActivationStates& states = evidence.activation_states();
  const auto state = [&](const char* key, const CapabilityState& value) {
    json.key(key);
    write_state(json, value);
  };
  json.begin_object();
  state("coverage", states.coverage);
  json.member("definition", kDefinition);
  state("dense_output", states.dense_output);
  state("device_time", states.device_time);
  state("host_time", states.host_time);
  state("logical_memory", states.logical_memory);
  json.key("operations");
  json.begin_array();
  evidence.activations().for_each([&](const ActivationOp& op) { write_operation(json, evidence, op); });
  json.end_array();
  state("physical_memory_attribution", states.physical_memory_attribution);
  json.member("unattributed_activation_storages", evidence.activations().unattributed_storages());
  json.end_object();
}

}  // namespace tensortap::analyzers::candle
