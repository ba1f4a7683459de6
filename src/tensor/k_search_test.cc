#include "tensor/k_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/codec_test_util.h"

namespace thermocline {
namespace {

// The weighted error of sub-block i with other integers, levels chosen anew.
double AffineError(const std::vector<float>& row, const AffineBlock& block,
                   int i, int scale, int min, int max_level) {
  const double step = double{F16ToF32(block.d)} * scale;
  const double offset = double{F16ToF32(block.dmin)} * min;
  double sum_squares = 0.0;
  for (int e = 32 * i; e < 32 * (i + 1); ++e) {
    sum_squares += double{row[e]} * row[e];
  }
  const double floor = std::sqrt(sum_squares / 32);
  double error = 0.0;
  for (int e = 32 * i; e < 32 * (i + 1); ++e) {
    const double level =
        step == 0.0 ? 0.0
                    : std::clamp(std::nearbyint((row[e] + offset) / step), 0.0,
                                 double(max_level));
    const double diff = step * level - offset - row[e];
    error += (floor + std::fabs(row[e])) * diff * diff;
  }
  return error;
}

double SymmetricError(const std::vector<float>& row, float d, int i,
                      int scale) {
  const double step = double{d} * scale;
  double error = 0.0;
  for (int e = 16 * i; e < 16 * (i + 1); ++e) {
    const double level =
        step == 0.0 ? 0.0
                    : std::clamp(std::nearbyint(row[e] / step), -32.0, 31.0);
    const double diff = step * level - row[e];
    error += double{row[e]} * row[e] * diff * diff;
  }
  return error;
}

// The search looks at 25 pairs of integers; all 4096 are hardly better.
TEST(KSearchTest, IsCloseToTheBestPairOfIntegers) {
  for (const int max_level : {15, 31}) {
    double chosen = 0.0;
    double best = 0.0;
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const auto row = GaussianRow(256, seed, 0.03f);
      const AffineBlock block = FitAffineBlock(row.data(), max_level);
      for (int i = 0; i < 8; ++i) {
        chosen += AffineError(row, block, i, block.scales.scale[i],
                              block.scales.min[i], max_level);
        double least = std::numeric_limits<double>::max();
        for (int pair = 0; pair < 64 * 64; ++pair) {
          least = std::min(least, AffineError(row, block, i, pair / 64,
                                              pair % 64, max_level));
        }
        best += least;
      }
    }
    EXPECT_LE(chosen, 1.05 * best) << max_level;
    EXPECT_GE(chosen, (1 - 1e-5) * best);
  }
}

// Nine scales of 256.
TEST(KSearchTest, IsNotFarFromTheBestScale) {
  double chosen = 0.0;
  double best = 0.0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto row = GaussianRow(256, seed, 0.03f);
    const SymmetricBlock block = FitSymmetricBlock(row.data());
    const float d = F16ToF32(block.d);
    for (int i = 0; i < 16; ++i) {
      chosen += SymmetricError(row, d, i, block.scales[i]);
      double least = std::numeric_limits<double>::max();
      for (int scale = -128; scale <= 127; ++scale) {
        least = std::min(least, SymmetricError(row, d, i, scale));
      }
      best += least;
    }
  }
  EXPECT_LE(chosen, 1.15 * best);
  EXPECT_GE(chosen, (1 - 1e-5) * best);
}

// Every sub-block has its own lane: other places, the same choices.
TEST(KSearchTest, SubBlocksDoNotDependOnTheirPlace) {
  const auto row = GaussianRow(256, 3, 1.0f);
  std::vector<float> turned = row;
  std::rotate(turned.begin(), turned.begin() + 32 * 3, turned.end());
  const AffineBlock a = FitAffineBlock(row.data(), 15);
  const AffineBlock b = FitAffineBlock(turned.data(), 15);
  EXPECT_EQ(a.d, b.d);
  EXPECT_EQ(a.dmin, b.dmin);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(b.scales.scale[i], a.scales.scale[(i + 3) % 8]) << i;
    EXPECT_EQ(b.scales.min[i], a.scales.min[(i + 3) % 8]) << i;
  }
  for (size_t e = 0; e < 256; ++e) {
    ASSERT_EQ(b.levels[e], a.levels[(e + 96) % 256]) << e;
  }

  const SymmetricBlock c = FitSymmetricBlock(row.data());
  const SymmetricBlock d = FitSymmetricBlock(turned.data());
  EXPECT_EQ(c.d, d.d);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(d.scales[i], c.scales[(i + 6) % 16]) << i;
  }
}

// A sub-block that is a grid of its own is found exactly.
TEST(KSearchTest, FindsAGrid) {
  Random random(4);
  std::vector<float> row(256);
  for (size_t e = 0; e < row.size(); ++e) {
    const size_t level = e % 32 < 2 ? 15 * (e % 2) : random.Below(16);
    row[e] = 0.5f * static_cast<float>(level) - 2.0f;
  }
  const AffineBlock block = FitAffineBlock(row.data(), 15);
  for (size_t e = 0; e < row.size(); ++e) {
    EXPECT_EQ(block.levels[e], (row[e] + 2.0f) / 0.5f) << e;
  }
}

TEST(KSearchTest, EqualNegativeNumbersAreAllMinimum) {
  const std::vector<float> row(256, -0.375f);
  const AffineBlock block = FitAffineBlock(row.data(), 15);
  EXPECT_EQ(block.d, 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(block.scales.min[i], 63);
  for (const uint8_t level : block.levels) EXPECT_EQ(level, 0);
}

TEST(KSearchTest, AnyBitsGiveValidBlocks) {
  for (const float odd : {kInf, -kInf, kNan, 3e38f, 1e-45f}) {
    for (const size_t at : {size_t{0}, size_t{37}, size_t{255}}) {
      auto row = GaussianRow(256, 5, 1.0f);
      row[at] = odd;
      const AffineBlock affine = FitAffineBlock(row.data(), 31);
      EXPECT_TRUE(std::isfinite(F16ToF32(affine.d)));
      EXPECT_TRUE(std::isfinite(F16ToF32(affine.dmin)));
      for (int i = 0; i < 8; ++i) {
        EXPECT_LE(affine.scales.scale[i], 63);
        EXPECT_LE(affine.scales.min[i], 63);
      }
      EXPECT_LE(*std::ranges::max_element(affine.levels), 31);
      const SymmetricBlock symmetric = FitSymmetricBlock(row.data());
      EXPECT_TRUE(std::isfinite(F16ToF32(symmetric.d)));
      EXPECT_LE(*std::ranges::max_element(symmetric.levels), 63);
    }
  }
}

}  // namespace
}  // namespace thermocline
