#include "trace_generator.h"

#include <algorithm>

namespace tensortap::bench {

using namespace format;

// What one operator of the model looks like.
struct TraceGenerator::Operator {
  std::string_view name, overload;
  std::vector<std::uint64_t> shape;  // of the output
  std::string_view args;             // as proto/ext.md has them, without the brackets
  int inputs = 1;                    // tensors among them
  bool allocates = true;             // the output has a storage of its own
  std::vector<Operator> calls;       // then it has a span
  std::uint64_t bytes() const {
    std::uint64_t product = sizeof(float);
    for (const std::uint64_t size : shape) product *= size;
    return product;
  }
};

namespace {

constexpr std::string_view kDevice = "cuda:0";
constexpr std::uint64_t kDeviceBytes = 80ull << 30;
constexpr int kLayers = 12;

#define TENSOR(shape) "{\"shape\":[" shape "],\"dtype\":\"f32\"}"
#define WEIGHT(shape) "{\"shape\":[" shape "],\"dtype\":\"f32\",\"requires_grad\":true}"

// An attention block of a small transformer: 8 sequences of 128 tokens, width 768.
const std::vector<TraceGenerator::Operator>& attention() {
  static const std::vector<TraceGenerator::Operator> operators = {
      {"aten::layer_norm",
       "",
       {8, 128, 768},
       TENSOR("8,128,768") ",[768]," WEIGHT("768") "," WEIGHT("768") ",1e-05,true",
       3,
       false,
       {{"aten::native_layer_norm",
         "",
         {8, 128, 768},
         TENSOR("8,128,768") ",[768]," WEIGHT("768") "," WEIGHT("768") ",1e-05",
         3,
         true,
         {}}}},
      {"aten::linear",
       "",
       {8, 128, 2304},
       TENSOR("8,128,768") "," WEIGHT("2304,768") "," WEIGHT("2304"),
       3,
       false,
       {{"aten::t", "", {768, 2304}, WEIGHT("2304,768"), 1, false, {}},
        {"aten::view", "", {1024, 768}, TENSOR("8,128,768") ",[1024,768]", 1, false, {}},
        {"aten::addmm",
         "",
         {1024, 2304},
         WEIGHT("2304") "," TENSOR("1024,768") "," TENSOR("768,2304") ",1,1",
         3,
         true,
         {}},
        {"aten::_unsafe_view", "", {8, 128, 2304}, TENSOR("1024,2304") ",[8,128,2304]", 1, false, {}}}},
      {"aten::split", "Tensor", {8, 128, 768}, TENSOR("8,128,2304") ",768,2", 1, false, {}},
      {"aten::transpose", "int", {8, 12, 128, 64}, TENSOR("8,128,12,64") ",1,2", 1, false, {}},
      {"aten::_scaled_dot_product_attention_math",
       "",
       {8, 12, 128, 64},
       TENSOR("8,12,128,64") "," TENSOR("8,12,128,64") "," TENSOR("8,12,128,64") ",null,0.0,true,null,null",
       3,
       true,
       {}},
  };
  return operators;
}

const std::vector<TraceGenerator::Operator>& perceptron() {
  static const std::vector<TraceGenerator::Operator> operators = {
      {"aten::linear",
       "",
       {8, 128, 3072},
       TENSOR("8,128,768") "," WEIGHT("3072,768") "," WEIGHT("3072"),
       3,
       false,
       {{"aten::t", "", {768, 3072}, WEIGHT("3072,768"), 1, false, {}},
        {"aten::addmm",
         "",
         {1024, 3072},
         WEIGHT("3072") "," TENSOR("1024,768") "," TENSOR("768,3072") ",1,1",
         3,
         true,
         {}}}},
      {"aten::gelu", "", {8, 128, 3072}, TENSOR("8,128,3072") ",\"tanh\"", 1, true, {}},
      {"aten::dropout",
       "",
       {8, 128, 768},
       TENSOR("8,128,768") ",0.1,true",
       1,
       false,
       {{"aten::native_dropout", "", {8, 128, 768}, TENSOR("8,128,768") ",0.1,true", 1, true, {}}}},
      {"aten::add", "Tensor", {8, 128, 768}, TENSOR("8,128,768") "," TENSOR("8,128,768") ",1", 2, true, {}},
  };
  return operators;
}

const std::vector<TraceGenerator::Operator>& update() {
  static const std::vector<TraceGenerator::Operator> operators = {
      {"aten::_foreach_add_", "List", {}, "[" WEIGHT("768,768") "," WEIGHT("768") "],[0.9],1", 2, false, {}},
      {"aten::_foreach_addcdiv_",
       "Scalar",
       {768, 768},
       "[" WEIGHT("768,768") "],[" TENSOR("768,768") "],[" TENSOR("768,768") "],-0.001",
       3,
       false,
       {}},
  };
  return operators;
}

std::string_view numbered(std::string& out, std::string_view prefix, std::uint64_t number) {
  out.clear();
  out.append(prefix);
  append_json_number(out, number);
  return out;
}
std::string numbered(std::string_view prefix, std::uint64_t number) {
  std::string out;
  numbered(out, prefix, number);
  return out;
}

Meta make_meta(const GeneratorOptions& options) {
  Meta meta;
  meta.run_id = numbered("generated-", options.seed);
  meta.correlation_id = meta.run_id;
  meta.entrypoint = "train.py";
  meta.phase = Phase::kTrain;
  meta.timestamp = "2026-01-15T09:30:00.000Z";
  meta.capture_step = 11;
  meta.warmup_steps = 10;
  meta.device = kDevice;
  CaptureContract& contract = meta.capture_contract;
  contract.measurement_scope = MeasurementScope::kProfiledWork;
  contract.operations = contract.physical_memory = contract.device_timing = Coverage::kComplete;
  contract.activations = contract.tensors = contract.gradients = contract.logical_memory = Coverage::kPartial;
  meta.tags = {{"generator", "tests/bench/format"}};
  meta.ext =
      R"({"producer":"tensortap","pid":4711,"command":["python3","train.py"],"torch":"2.7.0","disorder_ns":0})";
  return meta;
}

}  // namespace

TraceGenerator::TraceGenerator(const GeneratorOptions& options) : options_(options), random_(options.seed) {}

bool TraceGenerator::next(std::string& lines) {
  if (finished_) return false;
  out_ = &lines;
  const std::size_t before = lines.size();
  if (events_ == 0) begin();
  step();
  if (is_enough()) finish();
  out_ = nullptr;
  return lines.size() > before;
}

template <class Event>
void TraceGenerator::write(const Event& event) {
  const std::size_t before = out_->size();
  LineWriter(*out_).write(event);
  bytes_ += out_->size() - before;
  ++events_;
}

bool TraceGenerator::is_enough() const {
  if (options_.events == 0 && options_.bytes == 0) return steps_ > 0;
  return (options_.events != 0 && events_ >= options_.events) ||
         (options_.bytes != 0 && bytes_ >= options_.bytes);
}

void TraceGenerator::begin() {
  write(make_meta(options_));
  open_span("train.py", SpanKind::kFunction);
  spend(2000, 1000);
  open_span("capture", SpanKind::kFunction);
}

void TraceGenerator::step() {
  const std::string number = numbered("", steps_);
  std::string name = "step-";
  name.append(12 - std::min<std::size_t>(12, number.size()), '0').append(number);
  open_span(name, SpanKind::kFunction, numbered("\"step_number\":", steps_));
  sample_device();
  pass(Step::kForward, "GPT");
  if (!is_enough()) pass(Step::kBackward, "backward");
  if (!is_enough()) {
    if (steps_ == 0) gradients();
    pass(Step::kOptimizer, "Optimizer.step#AdamW.step");
  }
  ++steps_;
  if (options_.failed && is_enough()) return;
  free_all();
  close_span();
}

void TraceGenerator::finish() {
  finished_ = true;
  if (!options_.failed) {
    while (!open_.empty()) close_span();
  }
  Terminal terminal;
  terminal.timestamp_ns = now_ns_;
  if (options_.failed) {
    terminal.outcome = Outcome::kFailed;
    terminal.reason = "killed by signal 9";
  }
  terminal.ext =
      R"({"ledger":{"offered":0,"stored":0,"dropped":{},"unknown_tail_bytes_max":0},"written_by":"probe"})";
  write(terminal);
}

void TraceGenerator::pass(Step kind, std::string_view name) {
  open_span(name, kind == Step::kForward ? SpanKind::kModule : SpanKind::kFunction, {}, &kind);
  for (int i = 0; i < kLayers && !is_enough(); ++i) {
    if (kind == Step::kOptimizer) {
      for (const Operator& op : update()) run(op, &kind);
    } else {
      layer(kind == Step::kForward ? i : kLayers - 1 - i, &kind);
    }
  }
  if (options_.failed && is_enough()) return;
  close_span();
}

void TraceGenerator::layer(int number, const Step* step) {
  const std::string name = numbered("transformer.h.", static_cast<std::uint64_t>(number));
  const std::string call = numbered(",\"call_index\":", steps_);
  const bool forward = *step == Step::kForward;
  const SpanKind kind = forward ? SpanKind::kModule : SpanKind::kFunction;
  const std::string node = numbered("\"seq\":", ++last_seq_).append(",\"forward_thread\":1");
  open_span(forward ? std::string(name).append(".attn") : "AttentionBackward0", kind,
            forward ? std::string("\"type\":\"Attention\"").append(call) : node, step);
  for (const Operator& op : attention()) run(op, step);
  if (forward) write_statistics(std::string(name).append(".attn"));
  close_span();
  open_span(forward ? std::string(name).append(".mlp") : "MlpBackward0", kind,
            forward ? std::string("\"type\":\"MLP\"").append(call) : node, step);
  for (const Operator& op : perceptron()) run(op, step);
  close_span();
}

void TraceGenerator::run(const Operator& op, const Step* step) {
  spend(500, 3000);
  const std::uint64_t start_ns = now_ns_;
  if (!op.calls.empty()) {
    open_span(op.name, SpanKind::kOp, {}, step);
    for (const Operator& called : op.calls) run(called, step);
  }
  spend(1500, 20000);
  std::uint64_t storage = last_storage_;
  if (op.allocates) {
    live_.push_back({++last_storage_, op.bytes()});
    live_bytes_ += live_.back().bytes;
    storage = last_storage_;
    write_memory(live_.back(), op.name, MemoryAction::kAlloc);
    write_kernel();
    if (live_.size() > 64) {  // temporaries go while others stay
      const std::size_t at = below(live_.size());
      write_memory(live_[at], {}, MemoryAction::kFree);
      live_bytes_ -= live_[at].bytes;
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  write_op(op, start_ns, now_ns_ - start_ns, storage);
  if (!op.calls.empty()) close_span();
}

void TraceGenerator::open_span(std::string_view name, SpanKind kind, std::string_view ext_members,
                               const Step* step) {
  SpanStart span;
  std::string id;
  span.id = numbered(id, "s1.", ++last_span_);
  if (!open_.empty()) span.parent_id = open_.back().id;
  span.name = name;
  span.start_ns = now_ns_;
  span.span_kind = kind;
  span.measured = open_.size() == 1;
  if (step != nullptr) span.step = *step;
  ext_ = "{\"thread\":1";
  if (!ext_members.empty()) ext_.append(1, ',').append(ext_members);
  ext_ += '}';
  span.ext = ext_;
  write(span);
  open_.push_back({std::move(id), now_ns_});
}

void TraceGenerator::close_span() {
  write(SpanEnd{open_.back().id, now_ns_ - open_.back().start_ns, {}});
  open_.pop_back();
}

void TraceGenerator::write_op(const Operator& op, std::uint64_t start_ns, std::uint64_t duration_ns,
                              std::uint64_t storage) {
  ext_ = "{\"thread\":1";
  if (!op.overload.empty()) {
    ext_ += ",\"overload\":";
    append_json_string(ext_, op.overload);
  }
  ext_ += ",\"seq\":";
  append_json_number(ext_, ++last_seq_);
  ext_.append(",\"args\":[").append(op.args).append("],\"storage\":");
  append_json_string(ext_, numbered(storage_text_, "m", storage));
  ext_ += '}';
  op_.span_id = open_.back().id;
  op_.op_name = op.name;
  input_texts_.resize(static_cast<std::size_t>(op.inputs));
  op_.inputs.clear();
  for (std::string& text : input_texts_) {
    op_.inputs.push_back(
        numbered(text, "t", last_tensor_ - below(std::min<std::uint64_t>(last_tensor_, 50) + 1)));
  }
  op_.output = numbered(output_text_, "t", ++last_tensor_);
  op_.shape = op.shape;
  op_.dtype = "f32";
  op_.device = kDevice;
  op_.timestamp_ns = start_ns;
  op_.duration_ns = duration_ns;
  op_.output_dense_bytes = op.bytes();
  op_.input_dense_bytes = op.bytes() * static_cast<std::uint64_t>(op.inputs);
  op_.ext = ext_;
  write(op_);
}

void TraceGenerator::write_memory(const Block& block, std::string_view op_name, MemoryAction action) {
  memory_.timestamp_ns = now_ns_;
  memory_.storage_id = memory_.tensor_id = numbered(storage_text_, "m", block.storage);
  memory_.span_id = open_.back().id;
  memory_.op_name.reset();
  if (!op_name.empty()) memory_.op_name = op_name;
  memory_.device = kDevice;
  memory_.bytes = block.bytes;
  memory_.action = action;
  memory_.dtype = "u8";
  memory_.ext = "{\"thread\":1}";
  write(memory_);
}

void TraceGenerator::write_kernel() {
  const std::uint64_t duration_ns = 3000 + below(90000);
  write(DeviceInterval{open_.back().id, kDevice, "7", "cupti", "cupti", device_ns_, duration_ns, {}});
  device_ns_ += duration_ns + below(2000);
}

void TraceGenerator::write_statistics(std::string_view label) {
  statistics_.span_id = open_.back().id;
  statistics_.label = label;
  statistics_.shape = {8, 128, 768};
  statistics_.dtype = "f32";
  statistics_.elements = 8 * 128 * 768;
  statistics_.rms = 0.5 + static_cast<double>(below(1'000'000)) / 999'983.0;
  statistics_.abs_max = statistics_.rms * 6;
  statistics_.mean = (static_cast<double>(below(2'000'000)) - 1e6) / 3e9;
  write(statistics_);
}

void TraceGenerator::free_all() {
  for (const Block& block : live_) {
    spend(100, 200);
    write_memory(block, {}, MemoryAction::kFree);
  }
  live_.clear();
  live_bytes_ = 0;
}

void TraceGenerator::sample_device() {
  DeviceMemory sample;
  sample.timestamp_ns = now_ns_;
  sample.device = kDevice;
  sample.used_bytes = 3'000'000'000 + live_bytes_;
  sample.free_bytes = kDeviceBytes - *sample.used_bytes;
  sample.capacity_bytes = kDeviceBytes;
  write(sample);
}

void TraceGenerator::gradients() {
  std::string id;
  for (int i = 0; i < kLayers; ++i) {
    for (const std::string_view part : {".attn.c_attn.weight", ".attn.c_attn.bias", ".mlp.c_fc.weight"}) {
      const std::string key = numbered("transformer.h.", static_cast<std::uint64_t>(i)).append(part);
      Tensor tensor;
      tensor.span_id = open_.back().id;
      tensor.tensor_id = key;
      tensor.label = key;
      tensor.shape = {768, 2304};
      tensor.dtype = "f32";
      tensor.device = kDevice;
      tensor.requires_grad = true;
      tensor.dense_bytes = 768ull * 2304 * sizeof(float);
      tensor.category = MemoryCategory::kParameter;
      write(tensor);
      write(Edge{Edge::Kind::kData, key, key, 0, {}});
      Gradient gradient;
      gradient.event_id = numbered(id, "gradient-", static_cast<std::uint64_t>(events_));
      gradient.root = "model";
      gradient.key = key;
      gradient.state = GradientState::kPresent;
      gradient.norm = 0.001 + static_cast<double>(below(1'000'000)) / 777'777.0;
      write(gradient);
    }
  }
}

#undef TENSOR
#undef WEIGHT

}  // namespace tensortap::bench
