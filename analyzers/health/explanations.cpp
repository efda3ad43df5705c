#include "analyzers/health/explanations.h"

#include <array>
#include <utility>

namespace tensortap::analyzers {
namespace {

using Entry = std::pair<std::string_view, Explanation>;

constexpr std::array kIssues = {
    // Rules between records
    Entry{"missing_meta", {"the trace has no meta record: not a trace, or its beginning is lost"}},
    Entry{"meta_not_first", {"records before the meta record"}},
    Entry{"duplicate_meta", {"more than one meta record; the first counts"}},
    Entry{"missing_terminal", {"no terminal record: the run goes on, or its end was lost", true}},
    Entry{"record_after_terminal", {"records after the terminal record; they do not count"}},
    Entry{"duplicate_span_id", {"span ids that were used before; the later span was ignored"}},
    Entry{"span_end_without_start", {"ends of spans that had not started"}},
    Entry{"duplicate_span_end", {"second ends of spans; they were ignored"}},
    Entry{"invalid_tensor_stats", {"tensor statistics that contradict themselves"}},
    Entry{"unsupported_schema", {"the trace's schema is neither trace/10 nor trace/9"}},
    Entry{"trace9_tensor_stats", {"tensor statistics in a trace/9 stream, which may hold none"}},
    // Health
    Entry{"run_provenance_invalid", {"the meta record does not say which run this is as it must"}},
    Entry{"complete_with_failure_reason", {"the terminal record says complete and gives a reason"}},
    Entry{"failed_without_reason", {"the terminal record says failed and gives no reason"}},
    Entry{"terminal_precedes_evidence", {"the terminal record's time is before that of other records"}},
    Entry{"capture_failed", {"the run did not end well; see the reason", true}},
    Entry{"root_count", {"not exactly one span without a parent"}},
    Entry{"measurement_count", {"not exactly one measured span"}},
    Entry{"open_span", {"spans that never ended"}},
    Entry{"unknown_parent", {"spans whose parent is not in the trace"}},
    Entry{"child_outside_parent", {"spans that reach outside their parent's time"}},
    Entry{"span_cycle", {"spans whose parents lead into a cycle"}},
    Entry{"unknown_span", {"records charged to a span that is not in the trace"}},
    Entry{"empty_device_interval", {"device intervals of no duration"}},
    Entry{"operation_outside_span", {"operators that reach outside their span's time"}},
    Entry{"memory_outside_span", {"allocations or frees outside their span's time"}},
    Entry{"empty_device_memory_sample", {"device memory samples without a value"}},
    Entry{"unknown_call_edge_span", {"call edges to or from a span that is not in the trace"}},
    Entry{"call_edge_hierarchy_mismatch", {"call edges that contradict the spans' parents"}},
    Entry{"call_edge_duration_mismatch", {"call edges with another duration than their span"}},
    Entry{"empty_data_edge_endpoint", {"data edges without a tensor at one end"}},
    Entry{"unknown_data_edge_tensor", {"data edges to or from a tensor that no record names"}},
    Entry{"allocation_size_mismatch", {"allocations or frees that contradict their storage's size"}},
    Entry{"duplicate_allocation", {"allocations of a storage that was live, for the same tensor"}},
    Entry{"unpaired_free", {"frees of storages that were not live"}},
    Entry{"retained_allocations", {"storages are still live at the end", true}},
    Entry{"empty_gradient_event_id", {"gradients without an event id"}},
    Entry{"empty_gradient_parameter_key", {"gradients without a parameter"}},
    Entry{"duplicate_gradient_event_id", {"gradients whose event id was used before"}},
    Entry{"gradient_state_norm_inconsistent", {"gradients whose norm contradicts their state"}},
    Entry{"gradient_contract_missing", {"gradients are claimed complete without a contract"}},
    Entry{"gradient_contract_without_complete_coverage",
          {"there is a gradient contract, and gradients are not claimed complete"}},
    Entry{"gradient_contract_invalid", {"the gradient contract contradicts itself"}},
    Entry{"gradient_manifest_duplicate_key", {"parameters with more than one gradient record"}},
    Entry{"gradient_manifest_undeclared_key", {"gradients of parameters that the contract does not list"}},
    Entry{"gradient_manifest_missing_key", {"parameters of the contract without a gradient record"}},
    Entry{"gradient_family_non_finite", {"gradient families with a gradient that is not finite"}},
    Entry{"gradient_active_family_below_minimum", {"active gradient families with too few gradients"}},
    Entry{"gradient_inactive_family_leakage", {"inactive gradient families that have gradients"}},
    Entry{"gradient_conditional_family_below_minimum",
          {"data-conditional gradient families with some gradients, and too few"}},
    Entry{"operations_absent", {"no op record", true}},
    Entry{"tensors_absent", {"no tensor record", true}},
    Entry{"logical_memory_absent", {"no memory record", true}},
    Entry{"physical_memory_absent", {"no device_memory record", true}},
    Entry{"device_timing_absent", {"no device_interval record", true}},
    Entry{"gradients_absent", {"no gradient record in a training run", true}},
    Entry{"forward_absent", {"no forward span in a training run", true}},
    Entry{"backward_absent", {"no backward span in a training run", true}},
    Entry{"optimizer_absent", {"no optimizer span in a training run", true}},
    Entry{"empty_required_semantic_label", {"required labels that are blank"}},
    Entry{"duplicate_required_semantic_label", {"required labels that are listed twice"}},
    Entry{"required_semantic_label_cardinality",
          {"required labels that are not the name of exactly one span"}},
    Entry{"empty_semantic_label_classification", {"classified labels that are blank"}},
    Entry{"duplicate_semantic_label_classification", {"labels that are listed twice in their class"}},
    Entry{"unrequired_semantic_label_classification", {"classified labels that are not required"}},
    Entry{"overlapping_semantic_label_classification", {"labels that are classified twice"}},
    Entry{"incomplete_semantic_label_partition", {"the classified labels are not the required ones"}},
    // Ours
    Entry{"timestamp_zero", {"operators at time 0 in a span that began later: no usable timestamp"}},
    Entry{"timestamp_far_future", {"timestamps far in the future: not taken for times"}},
};

constexpr std::array kDiagnostics = {
    Entry{"before_window", {"operators that began before the capture: not recorded"}},
    Entry{"cut_at_stop", {"operators still running when the capture stopped: not recorded"}},
    Entry{"open_at_stop", {"spans that were open when the capture stopped: closed there"}},
    Entry{"free_of_unseen_block", {"frees of memory allocated before the capture: not recorded"}},
    Entry{"untracked_block", {"allocations that the table of live memory had no room for"}},
    Entry{"inputs_cut", {"operators whose list of inputs was cut"}},
    Entry{"record_too_large", {"records that were too large and were cut"}},
    Entry{"step_border_skipped", {"step borders that did not nest with open ranges: not recorded"}},
    Entry{"compiled_region", {"calls into code of torch.compile: operators fused inside are out of sight"}},
    Entry{"script_function", {"TorchScript calls: the interpreter's own primitives are out of sight"}},
    Entry{"string_table_full", {"names written in full: the table of names was full", true}},
    Entry{"orphan_end", {"ends of ranges whose start was not seen"}},
    Entry{"window_never_reached", {"the job ended before the step at which the capture was to begin", true}},
    Entry{"late_arm",
          {"late start of the capture: what the job did before the probe and a daemon were there was not "
           "seen"}},
    Entry{"tensor_id_evicted", {"tensors that may have got a second id"}},
    Entry{"python_hooks", {"", true}},
    Entry{"python_hooks_unavailable",
          {"Python hooks could not be placed: modules and optimizers are out of sight"}},
    Entry{"replaced_bytes", {"bytes of names and texts that were not UTF-8: shown as U+FFFD"}},
    Entry{"waited_for_room",
          {"waits of the job's threads for room in their rings: their times are longer by them"}},
    Entry{"write_failed", {"writes of the trace that failed: what they held is lost"}},
    Entry{"line_not_written", {"lines that could not be written"}},
    Entry{"ring_malformed", {"rings that were malformed: what followed in them is lost"}},
    Entry{"bad_line", {"lines of the producer that were refused"}},
    Entry{"note_refused", {"tags that the job gave and that found no room, or made no sense"}},
    Entry{"line_before_meta", {"lines before the meta record: refused"}},
    Entry{"line_after_terminal", {"lines after the terminal record: refused"}},
    Entry{"repeated_meta", {"further meta records: refused"}},
    Entry{"unfinished_line", {"lines that the producer did not finish"}},
    Entry{"unknown_tail", {"ends of the run that are unknown: records may be lost"}},
    Entry{"meta_unreadable", {"meta records that could not be read"}},
    Entry{"terminal_unreadable", {"terminal records that could not be read"}},
    Entry{"analysis_fault", {"faults of the live analysis: the report may lack what came after"}},
};

using DropEntry = std::pair<std::string_view, std::string_view>;
constexpr std::array kDrops = {
    DropEntry{"ring_full", "records lost: a thread's ring was full"},
    DropEntry{"no_ring", "records lost: no ring was left for their thread"},
    DropEntry{"nesting_too_deep", "records lost: calls nested too deep"},
    DropEntry{"in_flight", "records lost: on their way when the job died"},
    DropEntry{"write_failed", "records lost: the trace could not be written"},
    DropEntry{"bad_line", "records lost: lines that the daemon refused"},
    DropEntry{"line_before_meta", "records lost: they came before the meta record"},
    DropEntry{"line_after_terminal", "records lost: they came after the terminal record"},
    DropEntry{"repeated_meta", "further meta records: refused"},
    DropEntry{"unfinished_line", "records lost: lines that the producer did not finish"},
};

template <class Table>
auto look_up(const Table& table, std::string_view code) {
  for (const auto& [name, value] : table) {
    if (name == code) return value;
  }
  return typename Table::value_type::second_type{};
}

}  // namespace

Explanation explain_issue(std::string_view code) { return look_up(kIssues, code); }

Explanation explain_diagnostic(std::string_view code) {
  const Explanation known = look_up(kDiagnostics, code);
  return known.text.empty() && !known.is_fact ? Explanation{"counted by the probe or the daemon"} : known;
}

std::string_view explain_drop(std::string_view cause) {
  const std::string_view known = look_up(kDrops, cause);
  return known.empty() ? "records lost" : known;
}

}  // namespace tensortap::analyzers
