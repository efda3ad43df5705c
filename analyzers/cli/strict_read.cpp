#include "analyzers/cli/strict_read.h"

#include "analyzers/cli/command.h"
#include "format/trace_index.h"
#include "format/trace_reader.h"

namespace tensortap::analyzers {

format::Status read_strictly(const std::string& trace, format::EventVisitor& visitor,
                             const std::function<format::Status()>& finish) {
  auto reader = format::TraceReader::open(trace);
  if (!reader) return reader.error();
  if (format::Status meta = format::check_meta_line(trace); !meta) return meta;
  const format::ReadReport read = reader->read_all(visitor);
  if (!read.errors.empty()) return read.errors.front();
  format::Status status = finish();
  if (!status || read.truncated || reader->stream_error()) {
    format::Error error = reader->stream_error() ? *reader->stream_error()
                          : read.truncated       ? format::Error{format::ErrorCode::kTruncated,
                                                           "the input ends inside a line or frame"}
                                                 : status.error();
    if (error.file.empty()) error.file = trace == "-" ? "<standard input>" : trace;
    return error;
  }
  return {};
}

int refuse_trace(const format::Error& error, const std::string& trace) {
  say(error.to_string());
  using format::ErrorCode;
  const ErrorCode code = error.code;
  const bool is_fault_of_the_stream =
      code != ErrorCode::kNotFound && code != ErrorCode::kIo && code != ErrorCode::kInvalidArgument &&
      !(code == ErrorCode::kUnsupported && error.name.empty());  // a limit of ours
  if (is_fault_of_the_stream) {
    say("no document was made; `trace-analyze validate " + trace + "` lists all that is wrong");
  }
  return kExitUnreadable;
}

}  // namespace tensortap::analyzers
