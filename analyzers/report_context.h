// What every report needs to know about the run, and the one shape of a figure.
//
// A figure is {"value", "unit", "scope", "method", "status"}; status is complete, partial or unavailable
// (then value is null: unknown is never zero). A table has its figures' descriptions once, in `columns`, and
// bare values in `rows`.
//
//   object["peak"] = figure(peak, Unit::kBytes, "all devices", "§4.1", context.status(meta.logical_memory,
//   n));
//
// Ownership: borrows the meta. Thread rules: plain values.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/event.h"

namespace tensortap::analyzers {

enum class FigureStatus : std::uint8_t { kComplete, kPartial, kUnavailable };
enum class Unit : std::uint8_t { kCount, kNanoseconds, kBytes };

struct ReportContext {
  const format::Meta* meta = nullptr;      // null when the stream had none
  std::optional<format::Outcome> outcome;  // nothing: no terminal record
  std::string reason;
  bool has_reason = false;
  std::uint64_t terminal_ns = 0;
  std::uint64_t latest_ns = 0;      // greatest host time in the stream (§1.2 rule 11)
  std::uint64_t dropped = 0;        // by the ledger
  bool tail_unknown = false;        // by the ledger: there may have been more
  bool damaged = false;             // bad lines, or the input ends inside a line
  boost::json::object diagnostics;  // code → count, of the meta's ext
  boost::json::object ledger;       // of the terminal's ext
  boost::json::object terminal_ext;

  bool ended_well() const { return outcome == format::Outcome::kComplete; }
  // Nothing that was observed is missing from the stream.
  bool whole() const { return ended_well() && dropped == 0 && !tail_unknown && !damaged; }

  // By the capture contract's claim and how many observations there are. No observation and no claim of
  // completeness is "unavailable", never a zero.
  FigureStatus status(format::Coverage coverage, std::uint64_t observations) const;
  // Of figures on spans, for which the contract has no field.
  FigureStatus span_status(std::uint64_t observations) const;
  const format::CaptureContract& contract() const;
};

std::string_view status_name(FigureStatus status);
FigureStatus weaker(FigureStatus a, FigureStatus b);

boost::json::object figure(std::uint64_t value, Unit unit, std::string_view scope, std::string_view method,
                           FigureStatus status);
// A table column: a figure without its value.
boost::json::object column(Unit unit, std::string_view scope, std::string_view method, FigureStatus status);

}  // namespace tensortap::analyzers
