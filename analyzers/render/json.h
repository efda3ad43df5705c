// The bytes of report.json: one row of a table a line, everything else indented by two spaces, a final LF.
//
// Same report, same bytes: the daemon and `trace-analyze --json` both write this. Thread rules: pure
// function.
#pragma once

#include <boost/json/object.hpp>
#include <string>

namespace tensortap::analyzers {

std::string report_json(const boost::json::object& report);

}  // namespace tensortap::analyzers
