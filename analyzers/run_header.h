// The report's `run` member: who ran what, and how it ended, from the meta and terminal records alone.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string_view>

#include "analyzers/report_context.h"

namespace tensortap::analyzers {

boost::json::object run_header(const ReportContext& context);

// An `ext` text as a value; an empty object when it is none.
boost::json::object parse_object(std::string_view text);

// A count in an `ext` object; 0 when it is no unsigned integer.
std::uint64_t count_of(const boost::json::value& value);

}  // namespace tensortap::analyzers
