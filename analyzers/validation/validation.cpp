#include "analyzers/validation/validation.h"

#include <boost/json/array.hpp>
#include <utility>

#include "analyzers/render/table.h"
#include "format/health/trace_health.h"
#include "format/json_text.h"
#include "format/trace_index.h"
#include "format/trace_reader.h"

namespace tensortap::analyzers {
namespace {

using format::Error;
using format::ErrorCode;
using format::Health;

// "trace.jsonl:12 (byte 3456): "; without a place "trace.jsonl: ".
std::string at(const std::string& file, const std::optional<format::Place>& place) {
  Error where;
  where.file = printable(file);
  if (place) {
    where.line = place->line;
    where.byte_offset = place->byte_offset;
    where.has_offset = true;
  }
  return where.to_string();
}

std::string count_of(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

std::string read_error_text(const Validation& validation) {
  const Error& error = *validation.read_error;
  std::optional<format::Place> place;
  if (error.line != 0 || error.has_offset) place = format::Place{0, error.line, error.byte_offset};
  std::string out = at(validation.file, place) + "error " + std::string(read_error_code(error)) + ": " +
                    printable(error.message) + '\n' + printable(validation.file) + ": unreadable";
  if (validation.bad_lines != 0) out += ": " + count_of(validation.bad_lines, "bad line");
  if (validation.broken_rules != 0) out += ": " + count_of(validation.broken_rules, "broken stream rule");
  return out + '\n';
}

std::string verdict_text(const Health& health) {
  std::string out = "valid";
  if (!health.structurally_valid) {
    out = "structurally invalid: " + count_of(health.errors, "error");
    if (health.warnings != 0) out += ", " + count_of(health.warnings, "warning");
  } else if (health.warnings != 0) {
    out += " with " + count_of(health.warnings, "warning");
  }
  return out + (health.capture_complete ? "; capture complete" : "; capture failed");
}

boost::json::object place_members(const std::optional<format::Place>& place) {
  if (!place) return {{"line", nullptr}, {"byte_offset", nullptr}};
  return {{"line", place->line}, {"byte_offset", place->byte_offset}};
}

boost::json::object read_error_json(const Error& error) {
  boost::json::object out{{"code", read_error_code(error)},
                          {"message", format::well_formed_utf8(error.message)}};
  out["line"] = error.line != 0 ? boost::json::value(error.line) : boost::json::value(nullptr);
  out["byte_offset"] = error.has_offset ? boost::json::value(error.byte_offset) : boost::json::value(nullptr);
  return out;
}

boost::json::array issues_json(const Health& health) {
  boost::json::array out;
  for (const format::HealthIssue& issue : health.issues) {
    boost::json::object row{
        {"severity", severity_name(issue.severity)}, {"code", issue.code}, {"message", issue.message}};
    for (auto& member : place_members(issue.place)) row.insert(member);
    out.push_back(std::move(row));
  }
  return out;
}

boost::json::array totals_json(const Health& health) {
  boost::json::array out;
  for (const format::HealthTotal& total : health.totals) {
    out.push_back({{"code", total.code},
                   {"errors", total.errors},
                   {"warnings", total.warnings},
                   {"listed", total.listed}});
  }
  return out;
}

boost::json::object coverage_json(const format::HealthCoverage& c) {
  return {{"spans", c.spans},
          {"closed_spans", c.closed_spans},
          {"root_spans", c.root_spans},
          {"measured_spans", c.measured_spans},
          {"operations", c.operations},
          {"tensors", c.tensors},
          {"memory_events", c.memory_events},
          {"device_memory_samples", c.device_memory_samples},
          {"device_intervals", c.device_intervals},
          {"gradients", c.gradients},
          {"call_edges", c.call_edges},
          {"data_edges", c.data_edges},
          {"forward_spans", c.forward_spans},
          {"backward_spans", c.backward_spans},
          {"optimizer_spans", c.optimizer_spans}};
}

Error cut_off() {
  Error error;
  error.code = ErrorCode::kTruncated;
  error.message = "the input ends inside a compressed frame";
  return error;
}

}  // namespace

std::string_view read_error_code(const Error& error) {
  if (error.code == ErrorCode::kTruncated && error.name != "missing_terminal") return "truncated_input";
  if (!error.name.empty()) return error.name;
  switch (error.code) {
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kIo:
      return "io_error";
    default:
      return "damaged_input";
  }
}

Validation unreadable(const std::string& file, const Error& error) {
  Validation validation;
  validation.file = file;
  validation.read_error = error;
  return validation;
}

Validation validate_trace(const std::string& file) {
  auto reader = format::TraceReader::open(file);
  if (!reader) return unreadable(file, reader.error());
  if (const format::Status meta = format::check_meta_line(file); !meta) return unreadable(file, meta.error());
  format::TraceHealth health;
  const format::ReadReport report = reader->read_all(health);
  Validation validation;
  validation.file = file;
  validation.bad_lines = report.bad_lines;
  if (!report.errors.empty()) {
    validation.read_error = report.errors.front();
  } else if (reader->stream_error()) {
    validation.read_error = *reader->stream_error();
  } else if (report.truncated) {
    validation.read_error = cut_off();
  } else if (const format::Status status = health.stream_status(); !status) {
    validation.read_error = status.error();
    validation.broken_rules = health.rules().error_count();
  } else {
    validation.health = health.finish();
  }
  return validation;
}

std::string validation_text(const Validation& validation) {
  if (validation.read_error) return read_error_text(validation);
  std::string out;
  for (const format::HealthIssue& issue : validation.health.issues) {
    out += at(validation.file, issue.place);
    out += severity_name(issue.severity);
    out += ' ';
    out += issue.code;
    out += ": ";
    out += printable(issue.message);  // that of capture_failed is the producer's
    out += '\n';
  }
  for (const format::HealthTotal& total : validation.health.totals) {
    const std::uint64_t more = total.errors + total.warnings - total.listed;
    if (more == 0) continue;
    out += printable(validation.file) + ": and " + std::to_string(more) + " more " + std::string(total.code) +
           '\n';
  }
  return out + printable(validation.file) + ": " + verdict_text(validation.health) + '\n';
}

boost::json::object validation_json(const Validation& validation) {
  boost::json::object out{{"file", format::well_formed_utf8(validation.file)},
                          {"readable", !validation.read_error}};
  out["read_error"] = nullptr;
  if (validation.read_error) out["read_error"] = read_error_json(*validation.read_error);
  out["bad_lines"] = validation.bad_lines;
  out["broken_rules"] = validation.broken_rules;
  const Health& health = validation.health;
  if (validation.read_error) {
    for (const char* key : {"structurally_valid", "capture_complete", "errors", "warnings", "issues_cut",
                            "totals", "issues", "coverage"}) {
      out[key] = nullptr;
    }
    return out;
  }
  out["structurally_valid"] = health.structurally_valid;
  out["capture_complete"] = health.capture_complete;
  out["errors"] = health.errors;
  out["warnings"] = health.warnings;
  out["issues_cut"] = health.cut();
  out["totals"] = totals_json(health);
  out["issues"] = issues_json(health);
  out["coverage"] = coverage_json(health.coverage);
  return out;
}

}  // namespace tensortap::analyzers
