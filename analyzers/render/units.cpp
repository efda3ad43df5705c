#include "analyzers/render/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace tensortap::analyzers {
namespace {

// 1.24, 12.4, 124. A value that would be rounded up to 1000 belongs to the next unit: see the callers' loops.
std::string three_digits(double value) {
  char text[32];
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string two_digits(std::uint64_t value) {
  std::string text = std::to_string(100 + value);
  text.erase(0, 1);
  return text;
}

}  // namespace

std::string duration_text(std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) return std::to_string(nanoseconds) + " ns";
  const std::uint64_t seconds = nanoseconds / 1000000000;
  if (seconds >= 7200) return std::to_string(seconds / 3600) + " h " + two_digits(seconds / 60 % 60) + " min";
  if (seconds >= 120) return std::to_string(seconds / 60) + " min " + two_digits(seconds % 60) + " s";
  double value = static_cast<double>(nanoseconds) / 1e3;
  if (value < 999.5) return three_digits(value) + " µs";
  value /= 1e3;
  if (value < 999.5) return three_digits(value) + " ms";
  return three_digits(value / 1e3) + " s";
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return three_digits(value) + ' ' + kUnits[unit];
}

std::string count_text(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

}  // namespace tensortap::analyzers
