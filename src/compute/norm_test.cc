#include "compute/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/test_compute.h"

namespace thermocline::compute {
namespace {

using testing::OwnedTensor;
using testing::TestCompute;

std::vector<float> NormOf(NormKind kind, const TensorView& bias) {
  const TestCompute fixture({.num_rows = 2, .width = 4});
  const std::vector<float> x = {1.0f, 2.0f, 3.0f, 6.0f};
  std::copy(x.begin(), x.end(), fixture.x().row(0));
  std::copy(x.begin(), x.end(), fixture.x().row(1));
  const OwnedTensor weight(DType::kF32, std::vector<float>{1, 1, 2, 1}, 4);
  Normalize(fixture.compute(), {kind, 0.5f, weight.view(), bias}, fixture.x(),
            2, fixture.out());
  const auto row = fixture.out().span(1);
  return std::vector<float>(row.begin(), row.end());
}

TEST(Norm, Rms) {
  const auto out = NormOf(NormKind::kRms, {});
  const double scale = 1.0 / std::sqrt(50.0 / 4 + 0.5);
  EXPECT_NEAR(out[0], scale, 1e-6);
  EXPECT_NEAR(out[2], 6.0 * scale, 1e-6);
}

TEST(Norm, LayerWithAndWithoutBias) {
  // mean 3, variance (4 + 1 + 0 + 9) / 4
  const double scale = 1.0 / std::sqrt(3.5 + 0.5);
  const auto plain = NormOf(NormKind::kLayer, {});
  EXPECT_NEAR(plain[0], -2.0 * scale, 1e-6);
  EXPECT_NEAR(plain[3], 3.0 * scale, 1e-6);
  const OwnedTensor bias(DType::kF32, std::vector<float>{5, 0, 0, 7}, 4);
  const auto shifted = NormOf(NormKind::kLayer, bias.view());
  EXPECT_NEAR(shifted[0], 5.0 - 2.0 * scale, 1e-6);
  EXPECT_NEAR(shifted[3], 7.0 + 3.0 * scale, 1e-6);
}

}  // namespace
}  // namespace thermocline::compute
