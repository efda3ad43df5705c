#include "probe/core/mask_summary.h"

#include <cstring>

namespace tensortap::probe {

namespace {

enum class Element { kOpen, kBlocked, kOdd };  // kOdd: NaN or +inf

struct Bool {
  using Stored = std::uint8_t;
  static Element kind(Stored value) { return value != 0 ? Element::kBlocked : Element::kOpen; }
};

// Bits of an IEEE number: the exponent all ones is an infinity or a NaN.
template <class Bits, Bits kExponent, Bits kSign>
struct Float {
  using Stored = Bits;
  static Element kind(Stored bits) {
    if ((bits & kExponent) != kExponent) return Element::kOpen;
    return bits == (kSign | kExponent) ? Element::kBlocked : Element::kOdd;
  }
};

template <class Kind>
void summarize(const void* data, MaskShape shape, MaskSummary& out) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  bool upper = true;
  for (std::uint64_t slice = 0; slice < shape.slices; ++slice) {
    for (std::uint64_t row = 0; row < shape.rows; ++row) {
      for (std::uint64_t column = 0; column < shape.columns; ++column) {
        typename Kind::Stored stored;
        std::memcpy(&stored, at, sizeof stored);
        at += sizeof stored;
        const Element kind = Kind::kind(stored);
        out.has_nan_or_posinf |= kind == Element::kOdd;
        out.blocked_any |= kind == Element::kBlocked;
        upper &= (kind == Element::kBlocked) == (column > row);
      }
    }
  }
  out.blocked_equals_strict_upper = upper;
}

}  // namespace

bool summarize_mask(const void* data, std::uint8_t dtype, MaskShape shape, MaskSummary& out) noexcept {
  out = MaskSummary{};
  switch (dtype) {  // c10::ScalarType
    case 5:
      summarize<Float<std::uint16_t, 0x7C00, 0x8000>>(data, shape, out);
      return true;
    case 6:
      summarize<Float<std::uint32_t, 0x7F800000u, 0x80000000u>>(data, shape, out);
      return true;
    case 7:
      summarize<Float<std::uint64_t, 0x7FF0000000000000u, 0x8000000000000000u>>(data, shape, out);
      return true;
    case 11:
      summarize<Bool>(data, shape, out);
      return true;
    case 15:
      summarize<Float<std::uint16_t, 0x7F80, 0x8000>>(data, shape, out);
      return true;
    default:
      return false;
  }
}

}  // namespace tensortap::probe
