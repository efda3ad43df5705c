#include "probe/core/mask_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tensortap::probe {
namespace {

constexpr std::uint8_t kHalf = 5, kFloat = 6, kDouble = 7, kBool = 11, kBFloat16 = 15, kInt64 = 4;
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
MaskSummary of(const std::vector<T>& elements, std::uint8_t dtype, MaskShape shape) {
  MaskSummary found;
  EXPECT_EQ(shape.slices * shape.rows * shape.columns, elements.size());
  EXPECT_TRUE(summarize_mask(elements.data(), dtype, shape, found));
  return found;
}

void expect(const MaskSummary& found, bool odd, bool any, bool upper) {
  EXPECT_EQ(found.has_nan_or_posinf, odd);
  EXPECT_EQ(found.blocked_any, any);
  EXPECT_EQ(found.blocked_equals_strict_upper, upper);
}

TEST(MaskSummary, ABoolMaskBlocksWhereItIsTrue) {
  using Bytes = std::vector<std::uint8_t>;
  expect(of(Bytes{0, 1, 1, 0, 0, 1}, kBool, {1, 2, 3}), false, true, true);
  expect(of(Bytes{0, 1, 1, 0, 0, 0}, kBool, {1, 2, 3}), false, true, false);
  expect(of(Bytes{1, 1, 1, 0, 0, 1}, kBool, {1, 2, 3}), false, true, false);
  expect(of(Bytes{0, 0, 0, 0}, kBool, {1, 2, 2}), false, false, false);
  // One source position: nothing lies above.
  expect(of(Bytes{0, 0, 0}, kBool, {1, 3, 1}), false, false, true);
}

TEST(MaskSummary, EverySliceMustBeTheUpperTriangle) {
  using Bytes = std::vector<std::uint8_t>;
  expect(of(Bytes{0, 1, 0, 0, 0, 1, 0, 0}, kBool, {2, 2, 2}), false, true, true);
  expect(of(Bytes{0, 1, 0, 0, 0, 0, 0, 0}, kBool, {2, 2, 2}), false, true, false);
}

TEST(MaskSummary, AFloatMaskBlocksWithMinusInfinityOnly) {
  expect(of(std::vector<float>{0, -kInf, 0, 0}, kFloat, {1, 2, 2}), false, true, true);
  expect(of(std::vector<float>{0, -3e38f, -0.0f, 1}, kFloat, {1, 2, 2}), false, false, false);
  expect(of(std::vector<float>{0, kInf, 0, 0}, kFloat, {1, 2, 2}), true, false, false);
  expect(of(std::vector<float>{0, -kInf, std::nanf(""), 0}, kFloat, {1, 2, 2}), true, true, true);
  expect(of(std::vector<double>{0, -std::numeric_limits<double>::infinity(), 0, 0}, kDouble, {1, 2, 2}),
         false, true, true);
  expect(of(std::vector<std::uint16_t>{0, 0xFC00, 0x7BFF, 0xFBFF}, kHalf, {1, 2, 2}), false, true, true);
  expect(of(std::vector<std::uint16_t>{0, 0xFF80, 0x7F7F, 0x3F80}, kBFloat16, {1, 2, 2}), false, true, true);
  expect(of(std::vector<std::uint16_t>{0, 0xFF80, 0x7F80, 0}, kBFloat16, {1, 2, 2}), true, true, true);
}

TEST(MaskSummary, NothingElseIsAMask) {
  const std::int64_t elements[] = {0, 1};
  MaskSummary found;
  EXPECT_FALSE(summarize_mask(elements, kInt64, {1, 1, 2}, found));
}

}  // namespace
}  // namespace tensortap::probe
