#include "probe/core/tensor_values.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tensortap::probe {

namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr double kGreatest = std::numeric_limits<double>::max();

// A sum that carries its rounding error along (Neumaier).
class Sum {
 public:
  void add(double value) noexcept {
    const double sum = sum_ + value;
    rest_ += std::fabs(sum_) >= std::fabs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
    sum_ = sum;
  }
  double value() const noexcept { return sum_ + rest_; }

 private:
  double sum_ = 0;
  double rest_ = 0;
};

float float_of_bits(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
struct Plain {
  using Stored = T;
  static double value(T stored) noexcept { return static_cast<double>(stored); }
};

struct Bool {
  using Stored = std::uint8_t;
  static double value(std::uint8_t stored) noexcept { return stored != 0 ? 1.0 : 0.0; }
};

struct BFloat16 {
  using Stored = std::uint16_t;
  static double value(std::uint16_t stored) noexcept { return float_of_bits(std::uint32_t{stored} << 16); }
};

struct Half {
  using Stored = std::uint16_t;
  static double value(std::uint16_t stored) noexcept {
    const std::uint32_t sign = std::uint32_t{stored & 0x8000u} << 16;
    const std::uint32_t exponent = (stored >> 10) & 0x1F;
    const std::uint32_t fraction = stored & 0x3FFu;
    if (exponent == 0) {
      const double tiny = static_cast<double>(fraction) * 0x1p-24;
      return sign != 0 ? -tiny : tiny;
    }
    const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return float_of_bits(sign | wide << 23 | fraction << 13);
  }
};

// Elements are read by memcpy: nobody promised their alignment.
template <class Kind>
void reduce(const void* data, std::uint64_t count, Reductions& out) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  Sum sum, squares;
  double greatest = 0;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t end = count - done < kBlock ? count : done + kBlock;
    double block_sum = 0, block_squares = 0;
    for (; done < end; ++done, at += sizeof(typename Kind::Stored)) {
      typename Kind::Stored stored;
      std::memcpy(&stored, at, sizeof stored);
      const double value = Kind::value(stored);
      const double magnitude = std::fabs(value);
      if (!(magnitude <= kGreatest)) ++out.non_finite;
      if (magnitude > greatest) greatest = magnitude;
      block_sum += value;
      block_squares += value * value;
    }
    sum.add(block_sum);
    squares.add(block_squares);
  }
  if (count == 0) return;
  if (out.non_finite != 0) {
    out.rms = out.abs_max = out.mean = out.norm = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  const auto elements = static_cast<double>(count);
  out.abs_max = greatest;
  out.mean = sum.value() / elements;
  out.rms = std::sqrt(squares.value() / elements);
  out.norm = std::sqrt(squares.value());
}

}  // namespace

bool reduce_values(const void* data, std::uint8_t dtype, std::uint64_t count, Reductions& out) noexcept {
  out = Reductions{};
  switch (dtype) {  // c10::ScalarType
    case 0:
      reduce<Plain<std::uint8_t>>(data, count, out);
      return true;
    case 1:
      reduce<Plain<std::int8_t>>(data, count, out);
      return true;
    case 2:
      reduce<Plain<std::int16_t>>(data, count, out);
      return true;
    case 3:
      reduce<Plain<std::int32_t>>(data, count, out);
      return true;
    case 4:
      reduce<Plain<std::int64_t>>(data, count, out);
      return true;
    case 5:
      reduce<Half>(data, count, out);
      return true;
    case 6:
      reduce<Plain<float>>(data, count, out);
      return true;
    case 7:
      reduce<Plain<double>>(data, count, out);
      return true;
    case 11:
      reduce<Bool>(data, count, out);
      return true;
    case 15:
      reduce<BFloat16>(data, count, out);
      return true;
    case 27:
      reduce<Plain<std::uint16_t>>(data, count, out);
      return true;
    case 28:
      reduce<Plain<std::uint32_t>>(data, count, out);
      return true;
    case 29:
      reduce<Plain<std::uint64_t>>(data, count, out);
      return true;
    default:
      return false;
  }
}

}  // namespace tensortap::probe
