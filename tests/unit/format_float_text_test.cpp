// Floats as text: shortest, laid out as the format wants it, and such that the candle-graph crate, whose
// reader does not round correctly, gets the number that was written.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>

#include "format/json_text.h"

namespace tensortap::format {
namespace {

constexpr int kNumbers = 100000;

std::string shortest_text(double value) {
  std::string out;
  append_json_number(out, value);
  return out;
}

std::string field_text(double value) {
  std::string out;
  append_json_float_field(out, value);
  return out;
}

double correctly_rounded(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

// The reading procedure of specification §1.4, word by word: m in 128 bits to see what fits into 64, powers
// by strtod.
double read_as_the_crate_does(std::string_view text) {
  const bool negative = text.front() == '-';
  if (negative) text.remove_prefix(1);
  const std::size_t e_at = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, e_at);
  const std::size_t point = mantissa.find('.');
  const std::string_view integer = mantissa.substr(0, point);
  const std::string_view fraction =
      point == std::string_view::npos ? std::string_view() : mantissa.substr(point + 1);
  long e = e_at == std::string_view::npos ? 0 : std::atol(std::string(text.substr(e_at + 1)).c_str());

  unsigned __int128 m = 0;
  const auto fits = [&](char digit) {
    return m * 10 + static_cast<unsigned>(digit - '0') <= std::numeric_limits<std::uint64_t>::max();
  };
  bool integer_is_whole = true;
  for (std::size_t i = 0; i < integer.size(); ++i) {
    if (!fits(integer[i])) {
      e += static_cast<long>(integer.size() - i);
      integer_is_whole = false;
      break;
    }
    m = m * 10 + static_cast<unsigned>(integer[i] - '0');
  }
  for (std::size_t i = 0; integer_is_whole && i < fraction.size() && fits(fraction[i]); ++i) {
    m = m * 10 + static_cast<unsigned>(fraction[i] - '0');
    --e;
  }
  double value = static_cast<double>(static_cast<std::uint64_t>(m));
  while (e < -308) {
    value /= 1e308;
    e += 308;
  }
  const double power = correctly_rounded("1e" + std::to_string(std::labs(e)));
  value = e >= 0 ? value * power : value / power;
  return negative ? -value : value;
}

// Where the point and the exponent stand, told from the text alone.
bool is_laid_out(std::string_view text) {
  if (text.front() == '-') text.remove_prefix(1);
  const std::size_t e = text.find('e');
  if (e == std::string_view::npos) {
    const std::size_t point = text.find('.');
    if (point == std::string_view::npos || point + 1 == text.size() || point > 16) return false;
    const bool small = text.substr(0, 2) == "0.";
    const std::size_t zeros = small ? text.find_first_not_of('0', 2) : 2;
    if (small && zeros != std::string_view::npos && zeros - 2 > 4) return false;
    // The last digit says something, but for the one behind the point of a whole number.
    return text.back() != '0' || point + 2 == text.size();
  }
  const std::string_view mantissa = text.substr(0, e), exponent = text.substr(e + 1);
  if (mantissa.size() == 2 || (mantissa.size() > 2 && (mantissa[1] != '.' || mantissa.back() == '0')))
    return false;
  if (mantissa.front() == '0' || (exponent[0] != '+' && exponent[0] != '-')) return false;
  const int number = std::atoi(std::string(exponent).c_str());
  return (number < -5 || number > 15) && exponent[1] != '0';
}

// Random bit patterns, numbers like measured ones, and the edges of each layout.
class Doubles {
 public:
  double next() {
    switch (random_() % 4) {
      case 0:
        return std::ldexp(static_cast<double>(random_() >> 11), static_cast<int>(random_() % 80) - 90);
      case 1:
        return std::pow(10.0, static_cast<int>(random_() % 44) - 22) * (1 + static_cast<int>(random_() % 3));
      default:
        for (;;) {
          const double value = std::bit_cast<double>(random_());
          if (std::isfinite(value)) return value;
        }
    }
  }

 private:
  std::mt19937_64 random_{20260101};
};

TEST(FloatText, IsShortestAndReadsBackToTheSameBits) {
  Doubles doubles;
  for (int i = 0; i < kNumbers; ++i) {
    const double value = doubles.next();
    const std::string text = shortest_text(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(correctly_rounded(text)), std::bit_cast<std::uint64_t>(value))
        << text;
    ASSERT_TRUE(is_laid_out(text)) << text;
    // No text of fewer digits does: printf's is the nearest of its length.
    const auto digits = [](std::string_view from) {
      std::string found;
      for (const char c : from.substr(0, from.find('e'))) {
        if (c >= '0' && c <= '9' && (c != '0' || !found.empty())) found += c;
      }
      while (!found.empty() && found.back() == '0') found.pop_back();
      return std::max<std::size_t>(found.size(), 1);
    };
    const auto count = static_cast<int>(digits(text));
    if (count == 1) continue;
    char fewer[64];
    std::snprintf(fewer, sizeof fewer, "%.*e", count - 2, value);
    ASSERT_NE(correctly_rounded(fewer), value) << text << " could be " << fewer;
  }
}

TEST(FloatText, OfAFieldIsReadRightByTheCrateAndByCorrectReaders) {
  Doubles doubles;
  int misread = 0, other = 0;
  for (int i = 0; i < kNumbers; ++i) {
    const double value = doubles.next();
    const std::string text = field_text(value), shortest = shortest_text(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(correctly_rounded(text)), std::bit_cast<std::uint64_t>(value))
        << text;
    const bool shortest_is_read = read_as_the_crate_does(shortest) == value;
    if (shortest_is_read) {
      ASSERT_EQ(text, shortest);
      continue;
    }
    ++other;
    if (read_as_the_crate_does(text) == value) continue;
    ++misread;  // by any text: then the shortest is best
    ASSERT_EQ(text, shortest);
  }
  EXPECT_GT(other, kNumbers / 20) << "the numbers are too easy to show anything";
  EXPECT_LT(misread, kNumbers / 400) << "of " << other << " whose shortest text the crate misreads";
}

// A number that the crate takes for infinite makes it refuse the whole file.
TEST(FloatText, OfTheLargestNumbersIsNeverTooLargeForTheCrate) {
  double value = std::numeric_limits<double>::max();
  for (int i = 0; i < 2000; ++i, value = std::nextafter(value, 0)) {
    ASSERT_TRUE(std::isfinite(read_as_the_crate_does(field_text(value)))) << field_text(value);
  }
}

// The example of the specification: shortest text 5.951650039470735e-08.
TEST(FloatText, OfAFieldIsNotTheShortestWhereTheCrateWouldMisreadThat) {
  const double value = 5.951650039470735e-08;
  EXPECT_EQ(shortest_text(value), "5.951650039470735e-8");
  EXPECT_NE(read_as_the_crate_does("5.951650039470735e-8"), value);
  EXPECT_EQ(read_as_the_crate_does(field_text(value)), value);
  EXPECT_EQ(field_text(0.5), "0.5");
  EXPECT_EQ(field_text(-0.0), "-0.0");
  EXPECT_EQ(field_text(std::nan("")), "null");
}

}  // namespace
}  // namespace tensortap::format
