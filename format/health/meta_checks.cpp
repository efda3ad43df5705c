#include "format/health/meta_checks.h"

#include <array>
#include <string>
#include <unordered_set>
#include <utility>

#include "format/text.h"

namespace tensortap::format {
namespace {

using Labels = std::unordered_set<std::string_view>;

// The first thing that is wrong, or "".
std::string fault_of(const ComparisonIdentity& identity) {
  const std::array<std::pair<const char*, const std::string*>, 9> texts = {{
      {"implementation_id", identity.implementation_id ? &*identity.implementation_id : nullptr},
      {"workload_id", &identity.workload_id},
      {"model_id", &identity.model_id},
      {"config_id", &identity.config_id},
      {"data_id", &identity.data_id},
      {"seed_policy", &identity.seed_policy},
      {"precision", &identity.precision},
      {"device_state", &identity.device_state},
      {"pair_id", identity.pair_id ? &*identity.pair_id : nullptr},
  }};
  for (const auto& [name, text] : texts) {
    if (text != nullptr && is_blank(*text)) return "comparison_identity." + std::string(name) + " is blank";
  }
  if (identity.physical_batch < 1) return "comparison_identity.physical_batch is 0";
  if (identity.accumulation_steps < 1) return "comparison_identity.accumulation_steps is 0";
  return "";
}

std::string fault_of(const Meta& meta) {
  const std::array<std::pair<const char*, const std::string*>, 5> texts = {{
      {"run_id", &meta.run_id},
      {"correlation_id", &meta.correlation_id},
      {"entrypoint", &meta.entrypoint},
      {"timestamp", &meta.timestamp},
      {"device", &meta.device},
  }};
  for (const auto& [name, text] : texts) {
    if (is_blank(*text)) return std::string(name) + " is blank";
  }
  if (meta.capture_step < 1) return "capture_step is 0; steps count from 1";
  if (meta.warmup_steps >= meta.capture_step) {
    return "warmup_steps, " + std::to_string(meta.warmup_steps) + ", is not below capture_step, " +
           std::to_string(meta.capture_step);
  }
  return meta.comparison_identity ? fault_of(*meta.comparison_identity) : "";
}

void report_class(IssueList& issues, const std::vector<std::string>& labels, const char* list,
                  const Labels& required, Labels& classified, const Place& place) {
  Labels own;
  for (const std::string& label : labels) {
    const auto named = [&] { return "the label " + in_quotes(label) + " of " + list; };
    if (is_blank(label)) {
      issues.error_unless_failed("empty_semantic_label_classification", place,
                                 [&] { return named() + " is blank"; });
    }
    if (!own.insert(label).second) {
      issues.error_unless_failed("duplicate_semantic_label_classification", place,
                                 [&] { return named() + " is listed twice"; });
    }
    if (required.count(label) == 0) {
      issues.error_unless_failed("unrequired_semantic_label_classification", place,
                                 [&] { return named() + " is not one of required_semantic_labels"; });
    }
    if (!classified.insert(label).second) {
      issues.error_unless_failed("overlapping_semantic_label_classification", place,
                                 [&] { return named() + " was classified before"; });
    }
  }
}

}  // namespace

void report_provenance(IssueList& issues, const Meta& meta, const Place& place) {
  const std::string fault = fault_of(meta);
  if (!fault.empty()) issues.error("run_provenance_invalid", place, [&] { return "meta: " + fault; });
}

void report_labels(IssueList& issues, const CaptureContract& contract, const LabelCounts& counts,
                   const Place& place) {
  Labels required;
  for (const std::string& label : contract.required_semantic_labels) {
    const auto named = [&] { return "the required label " + in_quotes(label); };
    if (is_blank(label)) {
      issues.error_unless_failed("empty_required_semantic_label", place,
                                 [&] { return named() + " is blank"; });
    }
    if (!required.insert(label).second) {
      issues.error_unless_failed("duplicate_required_semantic_label", place,
                                 [&] { return named() + " is listed twice"; });
    }
    const std::uint64_t spans = counts.of(label).value_or(1);
    if (spans != 1) {
      issues.error_unless_failed("required_semantic_label_cardinality", place, [&] {
        return named() + " is the name of " + std::to_string(spans) + " spans; it must be that of one";
      });
    }
  }
  if (contract.gpu_expected_semantic_labels.empty() && contract.cpu_only_semantic_labels.empty()) return;
  Labels classified;
  report_class(issues, contract.gpu_expected_semantic_labels, "gpu_expected_semantic_labels", required,
               classified, place);
  report_class(issues, contract.cpu_only_semantic_labels, "cpu_only_semantic_labels", required, classified,
               place);
  if (classified != required) {
    issues.error_unless_failed("incomplete_semantic_label_partition", place, [&] {
      return "the classified labels, " + std::to_string(classified.size()) +
             ", are not the required labels, " + std::to_string(required.size());
    });
  }
}

}  // namespace tensortap::format
