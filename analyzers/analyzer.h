// What an analyzer is: a consumer of events that yields one report.
//
// It is shown each event once, in stream order, by reference to the reader's buffer; keeps what it needs
// (bounded by what the report needs, not by the trace's length) and yields its report at the end. Any number
// of them share one pass. The daemon runs them live, `trace-analyze` offline: same object, same result, same
// bytes.
//
// It can listen to two levels: records as they are (format::EventVisitor), and calls as the shared CallTree
// makes them out of records (CallVisitor: finished operator calls and spans, with self times). The tree has
// seen a record before the analyzers do. Adding one = a folder with a class, a line in registry.cpp, tests.
// Rendering (render/) is a function of the report value alone.
//
// Thread rules: one thread at a time.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "analyzers/calls/call_tree.h"
#include "analyzers/report_context.h"
#include "format/event.h"

namespace tensortap::analyzers {

class Analyzer : public format::EventVisitor, public CallVisitor {
 public:
  // The report's key: "health", "timing", "memory", ….
  virtual std::string_view name() const = 0;
  // True: it is shown the records that follow the terminal record too. They are no part of the run.
  virtual bool judges_stream() const { return false; }
  // The report so far; may be called more than once (live reports).
  virtual boost::json::object report(const ReportContext& context) const = 0;
};

// All registered analyzers, in the order of their reports. They borrow the tree, which must outlive them.
std::vector<std::unique_ptr<Analyzer>> make_analyzers(const CallTree& tree);

}  // namespace tensortap::analyzers
