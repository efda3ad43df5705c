// How floats are written: shortest text, and the text that the candle-graph crate reads right.
#include <charconv>
#include <cmath>
#include <system_error>

#include "format/json_text.h"

namespace tensortap::format {
namespace {

constexpr int kMaxDigits = 20;  // no more fit into the 64 bits of the crate's reader

// A finite number: ±d.ddd × 10^exponent.
struct Decimal {
  bool negative = false;
  char digits[kMaxDigits + 4];
  int count = 0;
  int exponent = 0;
};

// From `[-]d[.ddd]e±XX`.
Decimal decimal_of(const char* at, const char* end) {
  Decimal decimal;
  if (*at == '-') {
    decimal.negative = true;
    ++at;
  }
  for (; *at != 'e'; ++at) {
    if (*at != '.') decimal.digits[decimal.count++] = *at;
  }
  std::from_chars(at + (at[1] == '+' ? 2 : 1), end, decimal.exponent);
  return decimal;
}

Decimal shortest(double value) {
  char text[40];
  const auto result = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  return decimal_of(text, result.ptr);
}

// With exactly `count` digits, correctly rounded.
Decimal rounded(double value, int count) {
  char text[40];
  const auto result =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, count - 1);
  return decimal_of(text, result.ptr);
}

// Where the point goes is trace/10's rule (specification §1.4).
void append_decimal(std::string& out, const Decimal& d) {
  if (d.negative) out += '-';
  const auto count = static_cast<std::size_t>(d.count);
  if (d.exponent < -5 || d.exponent > 15) {
    out += d.digits[0];
    if (count > 1) (out += '.').append(d.digits + 1, count - 1);
    out += d.exponent < 0 ? "e" : "e+";
    append_json_number(out, static_cast<std::int64_t>(d.exponent));
  } else if (d.exponent < 0) {
    (out += "0.").append(static_cast<std::size_t>(-d.exponent - 1), '0').append(d.digits, count);
  } else {
    const std::size_t integer_digits = static_cast<std::size_t>(d.exponent) + 1;
    if (count <= integer_digits) {
      out.append(d.digits, count).append(integer_digits - count, '0') += ".0";
    } else {
      out.append(d.digits, integer_digits) += '.';
      out.append(d.digits + integer_digits, count - integer_digits);
    }
  }
}

double power_of_ten(int exponent) {
  char text[8] = {'1', 'e'};
  const char* end = std::to_chars(text + 2, text + sizeof text, exponent).ptr;
  double power = 0;
  std::from_chars(text, end, power);
  return power;
}

// What the crate's reader makes of a float's text (§1.4, "Float reading is not correctly rounded").
double crate_value(const char* at, const char* end) {
  const bool negative = *at == '-';
  if (negative) ++at;
  std::uint64_t digits = 0;
  int exponent = 0;
  bool full = false, fraction = false;
  for (; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      if (full) break;  // of a number that is too long already the fraction is not looked at
      fraction = true;
      continue;
    }
    std::uint64_t next = 0;
    full = full || __builtin_mul_overflow(digits, std::uint64_t{10}, &next) ||
           __builtin_add_overflow(next, static_cast<std::uint64_t>(*at - '0'), &next);
    if (!full) {
      digits = next;
      exponent -= fraction ? 1 : 0;
    } else if (!fraction) {
      ++exponent;
    }
  }
  while (at != end && *at != 'e') ++at;
  if (at != end) {
    int written = 0;
    std::from_chars(at + (at[1] == '+' ? 2 : 1), end, written);
    exponent += written;
  }
  double value = static_cast<double>(digits);
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  if (exponent >= 0) {
    value *= power_of_ten(exponent);
  } else if (value != 0) {
    value /= power_of_ten(-exponent);
  }
  return negative ? -value : value;
}

// Moves the number by `step` units of its last digit. False: it would get another number of digits.
bool move(Decimal& decimal, int step) {
  std::uint64_t digits = 0;
  if (std::from_chars(decimal.digits, decimal.digits + decimal.count, digits).ec != std::errc()) return false;
  digits += static_cast<std::uint64_t>(static_cast<std::int64_t>(step));
  const char* end = std::to_chars(decimal.digits, decimal.digits + sizeof decimal.digits, digits).ptr;
  return end - decimal.digits == decimal.count;
}

enum class ReadAs { kOther, kValue, kValueByAll };

// What readers make of the text behind `before`: another number, `value` if they round correctly, or `value`
// in any case.
ReadAs read_as(const std::string& out, std::size_t before, double value) {
  const char* begin = out.data() + before;
  const char* end = out.data() + out.size();
  double exact = 0;
  if (std::from_chars(begin, end, exact).ec != std::errc() || exact != value) return ReadAs::kOther;
  return crate_value(begin, end) == value ? ReadAs::kValueByAll : ReadAs::kValue;
}

// Tries `exact` and its neighbours on one side for as long as they are read as `value`.
bool append_neighbour(std::string& out, const Decimal& exact, int step, double value) {
  constexpr int kMost = 40;  // of a subnormal number they would be without end
  const std::size_t before = out.size();
  for (int i = 0; i < kMost; ++i) {
    Decimal near = exact;
    if (!move(near, step * i)) return false;
    append_decimal(out, near);
    const ReadAs result = read_as(out, before, value);
    if (result == ReadAs::kValueByAll) return true;
    out.resize(before);
    if (result == ReadAs::kOther) return false;
  }
  return false;
}

}  // namespace

void append_json_number(std::string& out, double value) {
  if (std::isfinite(value)) {
    append_decimal(out, shortest(value));
  } else {
    out += "null";
  }
}

void append_json_float_field(std::string& out, double value) {
  if (!std::isfinite(value)) return append_json_number(out, value);
  const Decimal first = shortest(value);
  const std::size_t before = out.size();
  append_decimal(out, first);
  if (read_as(out, before, value) == ReadAs::kValueByAll) return;
  out.resize(before);
  // Neighbours, and more digits: the text must stay nearest to `value` and lead the crate there. One number
  // in five hundred has no such text; it keeps its shortest.
  for (int count = first.count; count <= kMaxDigits; ++count) {
    const Decimal exact = rounded(value, count);
    // In units of the last digit, still finer than the crate's doubles.
    const int width = count < 18 ? 1 : count == 18 ? 4 : count == 19 ? 32 : 256;
    if (append_neighbour(out, exact, width, value) || append_neighbour(out, exact, -width, value)) return;
  }
  append_decimal(out, first);
}

}  // namespace tensortap::format
