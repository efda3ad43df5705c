// The twelve records of candle-graph/trace/10 as typed values (source: the trace/10 specification, §2).
//
// Ownership: every `std::string_view` borrows from the caller (when written) or from the reader's buffer
// (when read: valid only during the visitor call). Times are nanoseconds since the session began, sizes are
// bytes. `ext` is the raw JSON text of the record's `ext` object, "" when absent: all that trace/10 has no
// field for. What may stand in `ext` is documented in proto/ext.md. C++17: used inside the job too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensortap::format {

enum class Phase : std::uint8_t { kTrain, kInfer };
enum class TimingMode : std::uint8_t { kHost, kDeviceSynchronized };
enum class SpanKind : std::uint8_t { kFunction, kOp, kModule };
enum class Step : std::uint8_t { kForward, kBackward, kOptimizer };
enum class MemoryAction : std::uint8_t { kAlloc, kFree };
enum class MemoryCategory : std::uint8_t { kParameter, kActivation, kGradient, kOptimizer, kOther };
enum class GradientState : std::uint8_t { kPresent, kMissing, kZero, kNonFinite };
enum class Outcome : std::uint8_t { kComplete, kFailed };
enum class Coverage : std::uint8_t { kNone, kPartial, kComplete };
enum class MeasurementScope : std::uint8_t { kUnknown, kProfiledWork, kProductionEquivalent };
enum class Expectation : std::uint8_t { kActive, kInactive, kDataConditional };

struct GradientContract {
  struct Entry {
    std::string root, key, family;
  };
  struct Family {
    std::string family;
    Expectation expectation = Expectation::kActive;
    std::uint64_t min_present = 0;
  };
  std::string manifest_sha256;
  std::vector<Entry> expected;
  std::vector<Family> families;
};

struct CaptureContract {
  MeasurementScope measurement_scope = MeasurementScope::kUnknown;
  Coverage operations = Coverage::kNone;
  Coverage activations = Coverage::kNone;
  Coverage tensors = Coverage::kNone;
  Coverage gradients = Coverage::kNone;
  std::optional<GradientContract> gradient_contract;
  Coverage logical_memory = Coverage::kNone;
  Coverage physical_memory = Coverage::kNone;
  Coverage device_timing = Coverage::kNone;
  std::vector<std::string> required_semantic_labels;
  std::vector<std::string> gpu_expected_semantic_labels;
  std::vector<std::string> cpu_only_semantic_labels;
};

struct ComparisonIdentity {
  std::optional<std::string> implementation_id;
  std::string workload_id, model_id, config_id, data_id, seed_policy, precision, device_state;
  std::uint64_t physical_batch = 1;
  std::uint64_t accumulation_steps = 1;
  std::optional<std::string> pair_id;
};

// Owns its texts: there is one per stream, and it outlives the line it came from.
struct Meta {
  std::string schema = "candle-graph/trace/10";
  std::string run_id, correlation_id, entrypoint;
  Phase phase = Phase::kInfer;
  std::string timestamp;
  std::uint64_t capture_step = 1;
  std::uint64_t warmup_steps = 0;
  std::string device;
  bool measured_region_device_synchronized = false;
  TimingMode timing_mode = TimingMode::kHost;
  CaptureContract capture_contract;
  std::optional<ComparisonIdentity> comparison_identity;
  std::map<std::string, std::string> tags;
  std::optional<std::string> candle_version;
  std::string ext;
};

struct SpanStart {
  std::string_view id;
  std::optional<std::string_view> parent_id;
  std::string_view name;
  std::uint64_t start_ns = 0;
  SpanKind span_kind = SpanKind::kFunction;
  bool measured = false;
  std::optional<Step> step;
  std::string_view ext;
};

struct SpanEnd {
  std::string_view id;
  std::uint64_t duration_ns = 0;
  std::string_view ext;
};

struct Op {
  std::string_view span_id;
  std::string_view op_name;
  std::vector<std::string_view> inputs;
  std::optional<std::string_view> output;
  std::vector<std::uint64_t> shape;
  std::string_view dtype;
  std::string_view device;
  std::uint64_t duration_ns = 0;
  std::uint64_t timestamp_ns = 0;
  std::optional<std::uint64_t> output_dense_bytes;
  std::uint64_t input_dense_bytes = 0;
  std::string_view ext;
};

struct Tensor {
  std::string_view span_id;
  std::string_view tensor_id;
  std::optional<std::string_view> label;
  std::vector<std::uint64_t> shape;
  std::string_view dtype;
  std::string_view device;
  bool requires_grad = false;
  std::optional<std::uint64_t> dense_bytes;
  MemoryCategory category = MemoryCategory::kOther;
  std::string_view ext;
};

struct TensorStats {
  std::string_view span_id;
  std::string_view label;
  std::vector<std::uint64_t> shape;
  std::string_view dtype;
  std::uint64_t elements = 0;
  std::uint64_t non_finite = 0;
  double rms = 0;
  double abs_max = 0;
  double mean = 0;
  std::string_view ext;
};

struct Memory {
  std::uint64_t timestamp_ns = 0;
  std::string_view storage_id;
  std::string_view tensor_id;
  std::string_view span_id;
  std::optional<std::string_view> op_name;
  std::string_view device;
  std::uint64_t bytes = 0;
  MemoryAction action = MemoryAction::kAlloc;
  std::vector<std::uint64_t> shape;
  std::string_view dtype;
  MemoryCategory category = MemoryCategory::kOther;
  std::string_view ext;
};

struct DeviceMemory {
  std::uint64_t timestamp_ns = 0;
  std::string_view device;
  std::optional<std::uint64_t> used_bytes, free_bytes, reserved_bytes, capacity_bytes;
  std::string_view ext;
};

struct DeviceInterval {
  std::string_view span_id;
  std::string_view device, stream_id, clock_id, backend;
  std::uint64_t start_ns = 0;
  std::uint64_t duration_ns = 0;
  std::string_view ext;
};

struct Gradient {
  std::string_view event_id;
  std::string_view root, key;
  GradientState state = GradientState::kMissing;
  std::optional<double> norm;
  std::string_view ext;
};

struct Edge {
  enum class Kind : std::uint8_t { kCall, kData };
  Kind edge_kind = Kind::kData;
  std::string_view from;               // from_span or from_tensor
  std::string_view to;                 // to_span or to_tensor
  std::uint64_t host_duration_ns = 0;  // call edges only
  std::string_view ext;
};

struct Terminal {
  Outcome outcome = Outcome::kComplete;
  std::uint64_t timestamp_ns = 0;
  std::optional<std::string_view> reason;
  std::string_view ext;
};

// Where a record stands in its stream.
struct Place {
  std::uint64_t index = 0;        // 0-based among the non-blank lines
  std::uint64_t line = 0;         // 1-based among all lines
  std::uint64_t byte_offset = 0;  // of the line's first byte in the uncompressed stream
};

// Is shown each record once, in stream order. Override what you need.
class EventVisitor {
 public:
  virtual ~EventVisitor() = default;
  virtual void on_meta(const Meta&, const Place&) {}
  virtual void on_span_start(const SpanStart&, const Place&) {}
  virtual void on_span_end(const SpanEnd&, const Place&) {}
  virtual void on_op(const Op&, const Place&) {}
  virtual void on_tensor(const Tensor&, const Place&) {}
  virtual void on_tensor_stats(const TensorStats&, const Place&) {}
  virtual void on_memory(const Memory&, const Place&) {}
  virtual void on_device_memory(const DeviceMemory&, const Place&) {}
  virtual void on_device_interval(const DeviceInterval&, const Place&) {}
  virtual void on_gradient(const Gradient&, const Place&) {}
  virtual void on_edge(const Edge&, const Place&) {}
  virtual void on_terminal(const Terminal&, const Place&) {}
};

}  // namespace tensortap::format
