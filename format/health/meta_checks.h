// What a meta record says by itself, and its semantic labels against the names of spans (internal to
// format/health; §2.1, §2.5, §3.2).
//
//   LabelCounts labels(meta.capture_contract);
//   labels.saw(span.name);
//   report_provenance(issues, meta, place);
//   report_labels(issues, meta.capture_contract, labels, place);
//
// Thread rules: plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "format/event.h"
#include "format/health/issue_list.h"

namespace tensortap::format {

// How many spans have the name of each required label.
class LabelCounts {
 public:
  LabelCounts() = default;
  explicit LabelCounts(const CaptureContract& contract) {
    for (const std::string& label : contract.required_semantic_labels) counts_.emplace(label, 0);
  }
  void saw(std::string_view span_name) {
    if (counts_.empty()) return;
    if (const auto found = counts_.find(span_name); found != counts_.end()) ++found->second;
  }
  // Nothing: not one of the labels that were given.
  std::optional<std::uint64_t> of(std::string_view label) const {
    const auto found = counts_.find(label);
    return found == counts_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
};

void report_provenance(IssueList& issues, const Meta& meta, const Place& place);
void report_labels(IssueList& issues, const CaptureContract& contract, const LabelCounts& counts,
                   const Place& place);

}  // namespace tensortap::format
