#include "synth/math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thermocline::synth {
namespace {

TEST(SynthMathTest, AgreesWithTheCLibrary) {
  for (double x = -30.0; x <= 30.0; x += 0.37) {
    EXPECT_NEAR(StableExp(x) / std::exp(x), 1.0, 1e-14) << x;
    EXPECT_NEAR(StableCos(x), std::cos(x), 1e-12) << x;
    EXPECT_NEAR(StableSin(x), std::sin(x), 1e-12) << x;
  }
  for (double x = 1e-9; x < 1e9; x *= 1.7) {
    EXPECT_NEAR(StableLog(x), std::log(x), 1e-13) << x;
  }
  EXPECT_NEAR(StableCos(9999.5), std::cos(9999.5), 1e-11);
}

TEST(SynthMathTest, TailIsThatOfTheErrorFunction) {
  for (double b = -6.0; b <= 7.9; b += 0.1) {
    const double want = 0.5 * std::erfc(b / std::sqrt(2.0));
    EXPECT_NEAR(NormalTail(b) / want, 1.0, 1e-11) << b;
  }
}

TEST(SynthMathTest, ThresholdInvertsTheTail) {
  for (const double p : {1e-6, 0.001, 0.1, 0.5, 0.9, 0.999}) {
    EXPECT_NEAR(NormalTail(NormalThreshold(p)) / p, 1.0, 1e-9) << p;
  }
}

TEST(SynthMathTest, JointTailGoesFromIndependentToEqual) {
  for (const double b : {-1.0, 0.0, 1.2816, 2.5}) {
    const double p = NormalTail(b);
    EXPECT_NEAR(NormalJointTail(b, 0.0), p * p, 1e-15);
    EXPECT_NEAR(NormalJointTail(b, 0.5 * kPi), p, 1e-6);
  }
  // Sheppard: P(X > 0, Y > 0) = 1/4 + asin(r) / (2 pi).
  EXPECT_NEAR(NormalJointTail(0.0, 0.7), 0.25 + 0.7 / (2.0 * kPi), 1e-12);
}

}  // namespace
}  // namespace thermocline::synth
