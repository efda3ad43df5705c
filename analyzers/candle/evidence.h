// The evidence of one trace, as the candle-graph documents have it (trace/10 specification §5): health,
// memory, timing, graph summary, activations, capabilities, facts, findings and gaps, from one pass.
//
//   Evidence evidence;
//   ReadReport read = reader.read_all(evidence);
//   …unreadable if read says so…
//   if (Status status = evidence.finish(); !status) …unreadable, or no evidence can be built…
//   write_summary(json, evidence, input);
//
// Memory: bounded by pages, whatever the length of the trace (about 200 MiB at most); what grows with it is
// said at TraceTables and TraceHealth. Temporary files: about 150 bytes per record in $TMPDIR or /var/tmp.
// Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyzers/candle/activations.h"
#include "analyzers/candle/capabilities.h"
#include "analyzers/candle/graph_summary.h"
#include "analyzers/candle/physical_memory.h"
#include "format/event.h"
#include "format/health/trace_health.h"
#include "format/result.h"

namespace tensortap::analyzers::candle {

struct Finding {
  std::string_view code;
  std::string summary;            // one sentence without a full stop
  std::string source;             // id of a span or operation
  std::vector<Capability> needs;  // the capabilities it rests on
  Level qualification = Level::kUnavailable;
};

struct Fact {
  enum class Kind : std::uint8_t { kDuration, kBytes, kCount, kText };
  std::string_view code, label, source;
  Kind kind = Kind::kCount;
  std::variant<std::uint64_t, std::string> value;
  Capability capability = Capability::kOperations;
};

class Evidence final : public format::EventVisitor {
 public:
  Evidence();

  // Call once, after the last record. kRejected, kTruncated, kUnsupported: the stream breaks a rule of §1.2;
  // kInvalidArgument: two nodes of the graph would have one id. Then there is no evidence.
  format::Status finish();

  // All that follows: after a finish() that went well.
  const format::Meta& meta() const { return meta_; }
  const format::Health& health() const { return health_; }
  bool valid_and_complete() const { return health_.structurally_valid && health_.capture_complete; }
  const Capabilities& capabilities() const { return capabilities_; }
  const std::optional<GraphSummary>& graph() const { return graph_; }  // nothing: failed or invalid
  const ActivationProfile& activations() const { return *activations_; }
  const ActivationStates& activation_states() const { return activation_states_; }
  std::vector<Fact> facts() const;
  const std::vector<Finding>& findings() const { return findings_; }
  const std::vector<std::string>& gaps() const { return gaps_; }  // sorted, distinct
  std::uint64_t tensor_stats() const { return tensor_stats_; }
  std::uint64_t non_finite_tensor_stats() const { return non_finite_tensor_stats_; }

  const TraceTables& tables() const { return tables_; }
  TraceTables& tables() { return tables_; }  // for further tables of the same stream (Graph)
  const SpanTable& spans() const { return spans_; }
  const OpLog& ops() const { return ops_; }
  const LogicalMemory& logical() const { return logical_; }
  const PhysicalMemory& physical() const { return physical_; }
  const DeviceTiming& timing() const { return timing_; }

  void on_meta(const format::Meta&, const format::Place&) override;
  void on_span_start(const format::SpanStart&, const format::Place&) override;
  void on_span_end(const format::SpanEnd&, const format::Place&) override;
  void on_op(const format::Op&, const format::Place&) override;
  void on_tensor(const format::Tensor&, const format::Place&) override;
  void on_tensor_stats(const format::TensorStats&, const format::Place&) override;
  void on_memory(const format::Memory&, const format::Place&) override;
  void on_device_memory(const format::DeviceMemory&, const format::Place&) override;
  void on_device_interval(const format::DeviceInterval&, const format::Place&) override;
  void on_gradient(const format::Gradient&, const format::Place&) override;
  void on_edge(const format::Edge&, const format::Place&) override;
  void on_terminal(const format::Terminal&, const format::Place&) override;

 private:
  bool labels_name_one_span_each() const;
  void decide();
  void find();
  void collect_gaps();

  format::TraceHealth checks_;
  TraceTables tables_;
  SpanTable spans_{tables_};
  OpLog ops_{tables_, spans_};
  TensorSet tensors_{tables_};
  LogicalMemory logical_{tables_};
  PhysicalMemory physical_{tables_};
  DeviceTiming timing_{tables_};

  format::Meta meta_;
  std::map<std::string, std::uint64_t, std::less<>> spans_by_label_;  // of the contract's required labels
  std::uint64_t tensor_stats_ = 0, non_finite_tensor_stats_ = 0;
  std::uint64_t gradients_not_present_ = 0;

  format::Health health_;
  std::optional<SpanScope> scope_;
  std::optional<ActivationProfile> activations_;
  ActivationStates activation_states_;
  Capabilities capabilities_;
  std::optional<GraphSummary> graph_;
  std::vector<Finding> findings_;
  std::vector<std::string> gaps_;
};

}  // namespace tensortap::analyzers::candle
