#include "format/line_writer.h"

#include "format/event_names.h"

namespace tensortap::format {
namespace {

// One JSON object under construction. Fields appear in the order of the calls.
class ObjectWriter {
 public:
  ObjectWriter(std::string& out, std::uint64_t& replaced_bytes) : out_(out), replaced_bytes_(replaced_bytes) {
    out_ += '{';
  }

  void key(std::string_view name) {
    if (first_) {
      first_ = false;
      out_ += '"';
    } else {
      out_ += ",\"";
    }
    out_ += name;
    out_ += "\":";
  }
  void text(std::string_view name, std::string_view value) {
    key(name);
    replaced_bytes_ += append_json_string(out_, value);
  }
  // A key that is not ours: it may hold anything.
  void text_of(std::string_view any_key, std::string_view value) {
    if (!first_) out_ += ',';
    first_ = false;
    replaced_bytes_ += append_json_string(out_, any_key);
    out_ += ':';
    replaced_bytes_ += append_json_string(out_, value);
  }
  template <class Text>
  void text_if(std::string_view name, const std::optional<Text>& value) {
    if (value) text(name, *value);
  }
  template <class Enum>
  void name_of(std::string_view name, Enum value) {
    key(name);
    out_ += '"';
    out_ += enum_name(value);
    out_ += '"';
  }
  void boolean(std::string_view name, bool value) {
    key(name);
    out_ += value ? "true" : "false";
  }
  template <class Number>
  void number(std::string_view name, Number value) {
    key(name);
    append_json_number(out_, value);
  }
  void float_field(std::string_view name, double value) {
    key(name);
    append_json_float_field(out_, value);
  }
  template <class Number>
  void number_if(std::string_view name, const std::optional<Number>& value) {
    if (value) number(name, *value);
  }
  void numbers(std::string_view name, const std::vector<std::uint64_t>& values) {
    list(name, values, [this](std::uint64_t value) { append_json_number(out_, value); });
  }
  template <class Text>
  void texts(std::string_view name, const std::vector<Text>& values) {
    list(name, values,
         [this](std::string_view value) { replaced_bytes_ += append_json_string(out_, value); });
  }
  template <class Items, class WriteItem>
  void list(std::string_view name, const Items& items, WriteItem write_item) {
    key(name);
    out_ += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ',';
      first = false;
      write_item(item);
    }
    out_ += ']';
  }
  // An object inside this one, to be closed by its own `close`.
  ObjectWriter object() { return ObjectWriter(out_, replaced_bytes_); }
  ObjectWriter object(std::string_view name) {
    key(name);
    return object();
  }
  void close() { out_ += '}'; }
  void close_line(std::string_view ext) {
    if (!ext.empty()) {
      key("ext");
      out_ += ext;
    }
    out_ += "}\n";
  }

 private:
  std::string& out_;
  std::uint64_t& replaced_bytes_;
  bool first_ = true;
};

ObjectWriter begin_line(std::string& out, std::uint64_t& replaced_bytes, std::string_view kind) {
  ObjectWriter line(out, replaced_bytes);
  line.text("kind", kind);
  return line;
}

void write_gradient_contract(ObjectWriter object, const GradientContract& contract) {
  object.text("manifest_sha256", contract.manifest_sha256);
  object.list("expected", contract.expected, [&](const GradientContract::Entry& entry) {
    ObjectWriter item = object.object();
    item.text("root", entry.root);
    item.text("key", entry.key);
    item.text("family", entry.family);
    item.close();
  });
  object.list("families", contract.families, [&](const GradientContract::Family& family) {
    ObjectWriter item = object.object();
    item.text("family", family.family);
    item.name_of("expectation", family.expectation);
    item.number("min_present", family.min_present);
    item.close();
  });
  object.close();
}

void write_capture_contract(ObjectWriter object, const CaptureContract& contract) {
  object.name_of("measurement_scope", contract.measurement_scope);
  object.name_of("operations", contract.operations);
  object.name_of("activations", contract.activations);
  object.name_of("tensors", contract.tensors);
  object.name_of("gradients", contract.gradients);
  if (contract.gradient_contract) {
    write_gradient_contract(object.object("gradient_contract"), *contract.gradient_contract);
  }
  object.name_of("logical_memory", contract.logical_memory);
  object.name_of("physical_memory", contract.physical_memory);
  object.name_of("device_timing", contract.device_timing);
  object.texts("required_semantic_labels", contract.required_semantic_labels);
  if (!contract.gpu_expected_semantic_labels.empty()) {
    object.texts("gpu_expected_semantic_labels", contract.gpu_expected_semantic_labels);
  }
  if (!contract.cpu_only_semantic_labels.empty()) {
    object.texts("cpu_only_semantic_labels", contract.cpu_only_semantic_labels);
  }
  object.close();
}

void write_comparison_identity(ObjectWriter object, const ComparisonIdentity& identity) {
  object.text_if("implementation_id", identity.implementation_id);
  object.text("workload_id", identity.workload_id);
  object.text("model_id", identity.model_id);
  object.text("config_id", identity.config_id);
  object.text("data_id", identity.data_id);
  object.text("seed_policy", identity.seed_policy);
  object.number("physical_batch", identity.physical_batch);
  object.number("accumulation_steps", identity.accumulation_steps);
  object.text("precision", identity.precision);
  object.text("device_state", identity.device_state);
  object.text_if("pair_id", identity.pair_id);
  object.close();
}

}  // namespace

void LineWriter::write(const Meta& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "meta");
  line.text("schema", event.schema);
  line.text("run_id", event.run_id);
  line.text("correlation_id", event.correlation_id);
  line.text("entrypoint", event.entrypoint);
  line.name_of("phase", event.phase);
  line.text("timestamp", event.timestamp);
  line.number("capture_step", event.capture_step);
  line.number("warmup_steps", event.warmup_steps);
  line.text("device", event.device);
  line.boolean("measured_region_device_synchronized", event.measured_region_device_synchronized);
  line.name_of("timing_mode", event.timing_mode);
  write_capture_contract(line.object("capture_contract"), event.capture_contract);
  if (event.comparison_identity) {
    write_comparison_identity(line.object("comparison_identity"), *event.comparison_identity);
  }
  ObjectWriter tags = line.object("tags");
  for (const auto& [name, value] : event.tags) {
    tags.text_of(name, value);
  }
  tags.close();
  line.text_if("candle_version", event.candle_version);
  line.close_line(event.ext);
}

void LineWriter::write(const SpanStart& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "span_start");
  line.text("id", event.id);
  line.text_if("parent_id", event.parent_id);
  line.text("name", event.name);
  line.number("start_ns", event.start_ns);
  line.name_of("span_kind", event.span_kind);
  line.boolean("measured", event.measured);
  if (event.step) line.name_of("step", *event.step);
  line.close_line(event.ext);
}

void LineWriter::write(const SpanEnd& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "span_end");
  line.text("id", event.id);
  line.number("duration_ns", event.duration_ns);
  line.close_line(event.ext);
}

void LineWriter::write(const Op& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "op");
  line.text("span_id", event.span_id);
  line.text("op_name", event.op_name);
  line.texts("inputs", event.inputs);
  line.text_if("output", event.output);
  line.numbers("shape", event.shape);
  line.text("dtype", event.dtype);
  line.text("device", event.device);
  line.number("duration_ns", event.duration_ns);
  line.number("timestamp_ns", event.timestamp_ns);
  line.number_if("output_dense_bytes", event.output_dense_bytes);
  line.number("input_dense_bytes", event.input_dense_bytes);
  line.close_line(event.ext);
}

void LineWriter::write(const Tensor& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "tensor");
  line.text("span_id", event.span_id);
  line.text("tensor_id", event.tensor_id);
  line.text_if("label", event.label);
  line.numbers("shape", event.shape);
  line.text("dtype", event.dtype);
  line.text("device", event.device);
  line.boolean("requires_grad", event.requires_grad);
  line.number_if("dense_bytes", event.dense_bytes);
  line.name_of("category", event.category);
  line.close_line(event.ext);
}

void LineWriter::write(const TensorStats& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "tensor_stats");
  line.text("span_id", event.span_id);
  line.text("label", event.label);
  line.numbers("shape", event.shape);
  line.text("dtype", event.dtype);
  line.number("elements", event.elements);
  line.number("non_finite", event.non_finite);
  line.float_field("rms", event.rms);
  line.float_field("abs_max", event.abs_max);
  line.float_field("mean", event.mean);
  line.close_line(event.ext);
}

void LineWriter::write(const Memory& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "memory");
  line.number("timestamp_ns", event.timestamp_ns);
  line.text("storage_id", event.storage_id);
  line.text("tensor_id", event.tensor_id);
  line.text("span_id", event.span_id);
  line.text_if("op_name", event.op_name);
  line.text("device", event.device);
  line.number("bytes", event.bytes);
  line.name_of("action", event.action);
  line.numbers("shape", event.shape);
  line.text("dtype", event.dtype);
  line.name_of("category", event.category);
  line.close_line(event.ext);
}

void LineWriter::write(const DeviceMemory& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "device_memory");
  line.number("timestamp_ns", event.timestamp_ns);
  line.text("device", event.device);
  line.number_if("used_bytes", event.used_bytes);
  line.number_if("free_bytes", event.free_bytes);
  line.number_if("reserved_bytes", event.reserved_bytes);
  line.number_if("capacity_bytes", event.capacity_bytes);
  line.close_line(event.ext);
}

void LineWriter::write(const DeviceInterval& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "device_interval");
  line.text("span_id", event.span_id);
  line.text("device", event.device);
  line.text("stream_id", event.stream_id);
  line.text("clock_id", event.clock_id);
  line.text("backend", event.backend);
  line.number("start_ns", event.start_ns);
  line.number("duration_ns", event.duration_ns);
  line.close_line(event.ext);
}

void LineWriter::write(const Gradient& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "gradient");
  line.text("event_id", event.event_id);
  line.text("root", event.root);
  line.text("key", event.key);
  line.name_of("state", event.state);
  if (event.norm) line.float_field("norm", *event.norm);
  line.close_line(event.ext);
}

void LineWriter::write(const Edge& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "edge");
  line.name_of("edge_kind", event.edge_kind);
  if (event.edge_kind == Edge::Kind::kCall) {
    line.text("from_span", event.from);
    line.text("to_span", event.to);
    line.number("host_duration_ns", event.host_duration_ns);
  } else {
    line.text("from_tensor", event.from);
    line.text("to_tensor", event.to);
  }
  line.close_line(event.ext);
}

void LineWriter::write(const Terminal& event) {
  ObjectWriter line = begin_line(out_, replaced_bytes_, "terminal");
  line.name_of("outcome", event.outcome);
  line.number("timestamp_ns", event.timestamp_ns);
  line.text_if("reason", event.reason);
  line.close_line(event.ext);
}

}  // namespace tensortap::format
