// A part of a trace, as the lines that are stored: by iterations, by host time, by kind of record.
//
//   CutRequest request;
//   request.steps = parse_steps("3:5");
//   CutReport report = cut_trace("run.jsonl.zst", request, *sink);
//
// The rules, the same for every way of storing a trace:
// - The `meta` line always comes, first, without the blanks behind it.
// - A line with a host time (span_start: start_ns; op, memory, device_memory, terminal: timestamp_ns) is in
// the
//   part when that time is in the range; both ends are in it. What began before does not count.
// - Any other line goes with the line before it that has a host time: in it or not in it. Of span_end and
//   device_interval (whose own times are of another clock) only those come whose span's span_start is in the
//   part too, or would be, were it not for the kinds.
// - Of iterations the range is from start to end of their spans, not what lies between them. Their span_start
// and
//   span_end are always in it. One that never ended lasts to the end.
// - Ranges of steps and of time given together must both hold. Then the kinds choose among the lines.
// - What is chosen is checked as LineReader checks it (kind, fields, types, UTF-8): a line that is no record
// of
//   trace/10 is left out and counted, a trace whose meta line is none has no part. A whole trace is copied
//   unseen, but for its meta line's kind.
// So a part is not a valid stream: spans may lack their end or parent, and mostly there is no terminal.
//
// Thread rules: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzers/cut/line_sink.h"
#include "analyzers/cut/time_spans.h"
#include "format/line_facts.h"

namespace tensortap::analyzers {

struct CutRequest {
  std::optional<NumberRange> steps;
  std::optional<NumberRange> times;       // nanoseconds
  std::vector<format::RecordKind> kinds;  // none: all

  bool is_whole() const { return !steps && !times && kinds.empty(); }  // then lines are not looked at
};

struct CutReport {
  bool is_trace = false;              // the first record is a meta
  bool truncated = false;             // the input ends inside a line, frame or member
  std::uint64_t bad_lines = 0;        // of the part, or of no kind in what was read: no record of trace/10
  std::vector<format::Error> errors;  // of reading: what they name is lost, the rest was cut
  std::optional<format::Error> unwritten;  // the sink failed; the reading ended there
  std::size_t steps_found = 0;
  std::optional<NumberRange> steps_seen;    // that the trace has, when none was found
  std::size_t frames = 0, frames_read = 0;  // of a trace file of ours
};

// `path`: as TraceInput::open takes it. An error: the input cannot be opened at all.
format::Result<CutReport> cut_trace(const std::string& path, const CutRequest& request, LineSink& sink);

}  // namespace tensortap::analyzers
