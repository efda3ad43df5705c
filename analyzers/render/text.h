// A report for people: aligned columns, human units, the widest costs first.
//
//   std::cout << render_text(report, {.top = 10, .width = 100, .colour = isatty(1) != 0});
//
// A function of the report value alone (analysis.h): same report and options, same text. The daemon writes it
// as report.txt with the default options. Figures that are only partly known are marked "≥", unknown ones are
// "?". Thread rules: pure function.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tensortap::analyzers {

enum class SortBy : std::uint8_t { kSelf, kTotal, kCalls };

struct TextOptions {
  std::size_t top = 10;         // rows per table
  SortBy sort = SortBy::kSelf;  // of operators, modules and ranges
  std::size_t width = 100;      // columns of the terminal; at least 60
  bool colour = false;          // ANSI sequences
};

std::string render_text(const boost::json::object& report, const TextOptions& options = {});

}  // namespace tensortap::analyzers
