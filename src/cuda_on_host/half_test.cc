#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda_on_host/lane.h"

namespace thermocline::cuda_on_host {
namespace {

double ValueOf(unsigned half) {
  const int exponent = static_cast<int>(half >> 10 & 31);
  const double mantissa = half & 1023;
  return exponent == 0 ? std::ldexp(mantissa, -24)
                       : std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryValueGoesThereAndBack) {
  for (unsigned half = 0; half < 0x7c00; ++half) {
    const auto bits = static_cast<uint16_t>(half);
    const auto negative = static_cast<uint16_t>(half | 0x8000);
    ASSERT_EQ(HalfToFloat(bits), ValueOf(half)) << half;
    ASSERT_EQ(HalfToFloat(negative), -ValueOf(half)) << half;
    ASSERT_EQ(FloatToHalf(HalfToFloat(bits)), bits);
    ASSERT_EQ(FloatToHalf(HalfToFloat(negative)), negative);
  }
  EXPECT_TRUE(std::isinf(HalfToFloat(0x7c00)));
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7c01)));
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_TRUE(std::isnan(
      HalfToFloat(FloatToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Half, RoundsToNearestAndTiesToEven) {
  for (unsigned half = 0; half + 1 < 0x7c00; ++half) {
    const auto middle =
        static_cast<float>((ValueOf(half) + ValueOf(half + 1)) / 2);
    ASSERT_EQ(FloatToHalf(middle), half + half % 2);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), half + 1);
  }
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
}

}  // namespace
}  // namespace thermocline::cuda_on_host
