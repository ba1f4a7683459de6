#include "training/input_moments.h"

#include <cmath>

#include "training/testing.h"

namespace thermocline::training {
namespace {

TEST(InputMomentsTest, MomentsAreThoseOfTheSamples) {
  GateFixture f;
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  double mean0 = 0, mean1 = 0, product = 0;
  std::vector<float> x(kGateWidth);
  for (size_t n = 0; n < 600; ++n) {
    f.layer.samples.LoadInput(n, x.data());
    mean0 += double{x[0]} / 600;
    mean1 += double{x[1]} / 600;
    product += double{x[0]} * x[1] / 600;
  }
  EXPECT_NEAR(moments.mean[0], mean0, 1e-5);
  EXPECT_NEAR(moments.covariance[1], product - mean0 * mean1, 1e-5);
  EXPECT_EQ(moments.covariance[1], moments.covariance[kGateWidth]);
}

TEST(InputMomentsTest, UnitScaleMakesTheMeanSquareOne) {
  GateFixture f;
  Samples samples = f.layer.samples;
  // Uniform in [-1, 1): the mean square is 1/3.
  EXPECT_NEAR(UnitScale(samples), std::sqrt(3.0), 0.03);
  samples.input_scale = UnitScale(samples);
  EXPECT_NEAR(UnitScale(samples), samples.input_scale, 1e-4);
}

}  // namespace
}  // namespace thermocline::training
