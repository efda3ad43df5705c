#include "analyzers/candle/dense_bytes.h"

#include <string>

#include "format/text.h"

namespace tensortap::analyzers::candle {
namespace {

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  std::string name(format::trim(dtype));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (name == "u8" || name == "i8" || name == "bool" || name == "f8") return 1;
  if (name == "u16" || name == "i16" || name == "f16" || name == "bf16") return 2;
  if (name == "u32" || name == "i32" || name == "f32") return 4;
  if (name == "u64" || name == "i64" || name == "f64") return 8;
  return std::nullopt;
}

std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~std::uint64_t{0} : product;
}

}  // namespace

std::optional<std::uint64_t> dense_bytes(std::span<const std::uint64_t> shape, std::string_view dtype) {
  const auto each = element_bytes(dtype);
  if (!each) return std::nullopt;
  std::uint64_t elements = 1;
  for (const std::uint64_t dimension : shape) elements = saturating_product(elements, dimension);
  return saturating_product(elements, *each);
}

}  // namespace tensortap::analyzers::candle
