// The data the jobs train on: made from formulas, the same on every machine, with a structure that can be
// learned.
//
// Plain floats, no torch: Glyphs are 16×16 pictures of the ten digits (a 5×7 font at double width, moved by
// up to two pixels, with noise); Spirals are points on three noisy arms.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>

namespace ttjob {

inline constexpr int kGlyphSide = 16;
inline constexpr int kGlyphPixels = kGlyphSide * kGlyphSide;

// Rows of a 5×7 digit, the leftmost pixel in bit 4.
inline constexpr std::array<std::array<std::uint8_t, 7>, 10> kDigits = {{
    {0x0E, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0E},
    {0x04, 0x0C, 0x04, 0x04, 0x04, 0x04, 0x0E},
    {0x0E, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1F},
    {0x1F, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0E},
    {0x02, 0x06, 0x0A, 0x12, 0x1F, 0x02, 0x02},
    {0x1F, 0x10, 0x1E, 0x01, 0x01, 0x11, 0x0E},
    {0x06, 0x08, 0x10, 0x1E, 0x11, 0x11, 0x0E},
    {0x1F, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
    {0x0E, 0x11, 0x11, 0x0E, 0x11, 0x11, 0x0E},
    {0x0E, 0x11, 0x11, 0x0F, 0x01, 0x02, 0x0C},
}};

// Draws picture `index` (its digit is index % 10) into 256 floats.
inline void draw_glyph(std::uint64_t index, float* pixels) {
  std::mt19937 random(static_cast<std::uint32_t>(index * 2654435761u + 17));
  std::uniform_real_distribution<float> noise(0.0f, 0.3f);
  for (int i = 0; i < kGlyphPixels; ++i) pixels[i] = noise(random);
  const int left = static_cast<int>(random() % 5), top = static_cast<int>(random() % 2);
  const auto& rows = kDigits[index % 10];
  for (int y = 0; y < 14; ++y)
    for (int x = 0; x < 10; ++x)
      if ((rows[static_cast<std::size_t>(y / 2)] >> (4 - x / 2)) & 1)
        pixels[(top + y) * kGlyphSide + left + x] += 0.7f;
}

// Point `index` (its arm is index % 3) on a spiral.
inline std::array<float, 2> spiral_point(std::uint64_t index) {
  std::mt19937 random(static_cast<std::uint32_t>(index * 40503u + 5));
  std::normal_distribution<float> noise(0.0f, 0.08f);
  const float along = static_cast<float>(random() % 1000) / 1000.0f;
  const float angle = 2.1f * static_cast<float>(index % 3) + 4.0f * along + noise(random);
  return {along * std::cos(angle), along * std::sin(angle)};
}

}  // namespace ttjob
