// Reading for documents that are all or nothing: one bad line, a cut-off end or a broken rule between records
// refuses all of a trace.
//
//   Graph graph;
//   if (Status status = read_strictly(trace, graph, [&] { return graph.finish(); }); !status)
//     return refuse_trace(status.error(), trace);
//
// Thread rules: the main thread only.
#pragma once

#include <functional>
#include <string>

#include "format/event.h"
#include "format/result.h"

namespace tensortap::analyzers {

// Shows the visitor all records, then asks `finish` what it found. The first fault by the order of the
// specification (§1.1), with its place.
format::Status read_strictly(const std::string& trace, format::EventVisitor& visitor,
                             const std::function<format::Status()>& finish);

// Says on standard error why there is no document; the exit code.
int refuse_trace(const format::Error& error, const std::string& trace);

}  // namespace tensortap::analyzers
