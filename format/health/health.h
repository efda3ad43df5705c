// What structural health says about a trace: issues with code, severity and place, and plain counts
// (specification §3). Made by `TraceHealth` (trace_health.h).
//
//   for (const HealthIssue& issue : health.issues) print(issue.code, issue.message, issue.place);
//   if (!health.structurally_valid) return 2;
//   print(health.coverage.operations);
//
// Thread rules: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/event.h"

namespace tensortap::format {

enum class Severity : std::uint8_t { kError, kWarning };

inline std::string_view severity_name(Severity severity) {
  return severity == Severity::kError ? "error" : "warning";
}

struct HealthIssue {
  Severity severity = Severity::kError;
  std::string_view code;       // one of §3.2 and §3.3; a constant
  std::string message;         // one sentence without a full stop; of `capture_failed` the terminal's reason
  std::optional<Place> place;  // of the record at fault, if there is one
};

// All issues of one code, also those beyond the limit of `Health::issues`.
struct HealthTotal {
  std::string_view code;
  std::uint64_t errors = 0, warnings = 0;
  std::uint64_t listed = 0;    // how many of them are in `Health::issues`
  std::optional<Place> first;  // the earliest record at fault, if one has a place
};

// Records and spans, counted (§3.4).
struct HealthCoverage {
  std::uint64_t spans = 0, closed_spans = 0, root_spans = 0, measured_spans = 0;
  std::uint64_t operations = 0, tensors = 0, memory_events = 0, device_memory_samples = 0;
  std::uint64_t device_intervals = 0, gradients = 0, call_edges = 0, data_edges = 0;
  std::uint64_t forward_spans = 0, backward_spans = 0, optimizer_spans = 0;
};

struct Health {
  bool structurally_valid = false;  // no error
  bool capture_complete = false;    // the terminal's outcome is `complete`
  std::vector<HealthIssue> issues;  // in report order; of each code at most the limit
  std::vector<HealthTotal> totals;  // exact, in the order in which the codes first appear
  std::uint64_t errors = 0, warnings = 0;
  HealthCoverage coverage;

  bool cut() const { return issues.size() < errors + warnings; }
};

}  // namespace tensortap::format
