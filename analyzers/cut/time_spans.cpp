#include "analyzers/cut/time_spans.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace tensortap::analyzers {
namespace {

std::optional<std::uint64_t> parse_number(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Decimal places of a nanosecond in the unit at the end of `text`, which is taken off.
std::size_t take_unit(std::string_view& text) {
  for (const auto& [unit, places] :
       {std::pair<std::string_view, std::size_t>{"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    return places;
  }
  return 0;
}

}  // namespace

TimeSpans::TimeSpans(std::vector<NumberRange> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const NumberRange& a, const NumberRange& b) { return a.first < b.first; });
  for (const NumberRange& span : spans) {
    if (span.first > span.last) continue;
    if (!spans_.empty() && span.first <= spans_.back().last) {
      spans_.back().last = std::max(spans_.back().last, span.last);
    } else {
      spans_.push_back(span);
    }
  }
}

bool TimeSpans::touches(const NumberRange& range) const {
  if (range.first > range.last) return false;
  const auto next = std::lower_bound(spans_.begin(), spans_.end(), range.first,
                                     [](const NumberRange& s, std::uint64_t t) { return s.last < t; });
  return next != spans_.end() && next->first <= range.last;
}

TimeSpans TimeSpans::within(const NumberRange& range) const {
  std::vector<NumberRange> cut;
  for (const NumberRange& span : spans_) {
    cut.push_back({std::max(span.first, range.first), std::min(span.last, range.last)});
  }
  return TimeSpans(std::move(cut));
}

std::optional<std::uint64_t> parse_time(std::string_view text) {
  const std::size_t places = take_unit(text);
  const std::size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  if (digits.empty() || (point != std::string_view::npos && fraction.empty())) return std::nullopt;
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  if (fraction.size() > places) return std::nullopt;
  digits += fraction;
  digits.append(places - fraction.size(), '0');
  return parse_number(digits);
}

std::optional<NumberRange> parse_steps(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view first = text.substr(0, colon);
  const std::string_view last = colon == std::string_view::npos ? first : text.substr(colon + 1);
  NumberRange range;
  if (first.empty() && last.empty()) return std::nullopt;
  if (!first.empty()) {
    const auto number = parse_number(first);
    if (!number) return std::nullopt;
    range.first = *number;
  }
  if (!last.empty()) {
    const auto number = parse_number(last);
    if (!number) return std::nullopt;
    range.last = *number;
  }
  if (range.first > range.last) return std::nullopt;
  return range;
}

}  // namespace tensortap::analyzers
