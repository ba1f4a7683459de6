#include "synth/basis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace thermocline::synth {
namespace {

TEST(SynthBasisTest, DirectionsAreNearlyOrthogonalAndSumToZero) {
  for (const size_t width : {224u, 480u, 2016u}) {
    const size_t count = 96;
    const SignBasis basis(width, count, 5);
    std::vector<std::vector<float>> rows(count, std::vector<float>(width));
    for (size_t k = 0; k < count; ++k) {
      basis.Direction(k, 1.0f, rows[k]);
      EXPECT_EQ(std::accumulate(rows[k].begin(), rows[k].end(), 0.0f), 0.0f);
      for (const size_t j : {size_t{0}, width / 2, width - 1}) {
        EXPECT_EQ(rows[k][j], static_cast<float>(basis.Sign(k, j)));
      }
    }
    double squares = 0.0;
    for (size_t k = 0; k < count; ++k) {
      for (size_t l = 0; l < k; ++l) {
        const double product = std::inner_product(
            rows[k].begin(), rows[k].end(), rows[l].begin(), 0.0);
        squares += product * product;
      }
    }
    // Random signs have a mean square of W; here only the parts that are
    // smaller than the number of directions add to it.
    const double mean = squares / (count * (count - 1) / 2.0);
    EXPECT_LT(mean, 150.0) << width;
  }
}

TEST(SynthBasisTest, CombineIsTheSumOfTheDirections) {
  const SignBasis basis(480, 40, 7);
  std::vector<float> coefs(40);
  for (size_t k = 0; k < coefs.size(); ++k) {
    coefs[k] = std::sin(static_cast<float>(k));
  }
  std::vector<float> got(480);
  basis.Combine(coefs, got);
  for (size_t j = 0; j < got.size(); ++j) {
    double want = 0.0;
    for (size_t k = 0; k < coefs.size(); ++k) {
      want += static_cast<double>(coefs[k]) * basis.Sign(k, j);
    }
    EXPECT_NEAR(got[j], want, 1e-4);
  }
}

TEST(SynthBasisTest, TheSeedChoosesTheDirections) {
  const SignBasis a(64, 8, 1);
  const SignBasis b(64, 8, 1);
  const SignBasis c(64, 8, 2);
  bool differs = false;
  for (size_t k = 0; k < 8; ++k) {
    for (size_t j = 0; j < 64; ++j) {
      EXPECT_EQ(a.Sign(k, j), b.Sign(k, j));
      differs |= a.Sign(k, j) != c.Sign(k, j);
    }
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace thermocline::synth
