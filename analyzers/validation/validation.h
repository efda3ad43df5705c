// One trace judged as strictly as the format says: unreadable, or its structural health; as text and as JSON.
//
//   const Validation validation = validate_trace("run.jsonl.zst");
//   std::cout << validation_text(validation);
//
// The JSON document, `tensortap/validation/1`, is {"schema", "files": [of each trace: file, readable,
// read_error (code, message, line, byte_offset), bad_lines, broken_rules, structurally_valid,
// capture_complete, errors, warnings, issues_cut, totals, issues (severity, code, message, line,
// byte_offset), coverage]}. What is not known of an unreadable trace is null.
//
// Thread rules: functions without state.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/health/health.h"
#include "format/result.h"

namespace tensortap::analyzers {

inline constexpr const char* kValidationSchema = "tensortap/validation/1";

struct Validation {
  std::string file;
  // Why the trace is unreadable. A bad line comes before a rule between records that is broken (§1.1).
  std::optional<format::Error> read_error;
  std::uint64_t bad_lines = 0;     // refused by themselves
  std::uint64_t broken_rules = 0;  // between records (§1.2); known only when there is no bad line
  format::Health health;           // meaningful when there is no read error
};

// `file`: a path, or "-" for standard input.
Validation validate_trace(const std::string& file);
Validation unreadable(const std::string& file, const format::Error& error);

// The stable code of a read error. Of a line: malformed_json, invalid_utf8, unknown_kind, missing_field,
// repeated_field, wrong_type, unknown_value (of an enum), number_out_of_range, nesting_too_deep; between
// records: those of format/stream_rules.h; of the input: truncated_input, damaged_input, not_found, io_error.
std::string_view read_error_code(const format::Error& error);

std::string validation_text(const Validation& validation);
boost::json::object validation_json(const Validation& validation);

}  // namespace tensortap::analyzers
