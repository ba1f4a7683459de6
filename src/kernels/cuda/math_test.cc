#ifdef TC_CUDA_ON_HOST

#include "kernels/cuda/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace thermocline::cuda {
namespace {

// In units of the last place of the right value, subnormal or not.
double Ulps(float value, double right) {
  const double size = std::fmax(std::fabs(right), 0x1p-126);
  return std::fabs(value - right) / std::ldexp(1.0, std::ilogb(size) - 23);
}

// Every `step`-th float of one sign, up to infinity.
template <typename Visit>
void ForFloats(float sign, uint32_t step, const Visit& visit) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += step) {
    visit(sign * std::bit_cast<float>(bits));
  }
}

TEST(CudaMath, ExpIsWithinOneAndAHalfUlps) {
  double worst = 0;
  for (const float sign : {1.0f, -1.0f}) {
    ForFloats(sign, 9973, [&](float x) {
      if (x < -103.9f || x > 88.72f) return;
      worst = std::fmax(worst, Ulps(Exp(x), std::exp(double{x})));
    });
  }
  EXPECT_LT(worst, 1.5);
}

TEST(CudaMath, ExpAtItsEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(88.73f), infinity);
  EXPECT_EQ(Exp(3e38f), infinity);
  EXPECT_EQ(Exp(infinity), infinity);
  EXPECT_EQ(Exp(-103.0f), 0x1p-149f);
  EXPECT_EQ(Exp(-104.0f), 0.0f);
  EXPECT_EQ(Exp(-infinity), 0.0f);
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
}

TEST(CudaMath, TanhIsWithinTwoAndAHalfUlps) {
  double worst = 0;
  ForFloats(1.0f, 9973, [&](float x) {
    worst = std::fmax(worst, Ulps(Tanh(x), std::tanh(double{x})));
    ASSERT_EQ(Tanh(-x), -Tanh(x));
  });
  EXPECT_LT(worst, 2.5);
  EXPECT_EQ(Tanh(std::numeric_limits<float>::infinity()), 1.0f);
  EXPECT_TRUE(std::isnan(Tanh(std::nanf(""))));
}

}  // namespace
}  // namespace thermocline::cuda

#endif  // TC_CUDA_ON_HOST
