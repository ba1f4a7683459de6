#include "engine/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/testing/compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;

model::Config ConfigOf(model::NormKind norm) {
  model::Config config;
  config.width = 4;
  config.ffn_width = 4;
  config.num_heads = config.num_kv_heads = 1;
  config.key_width = config.value_width = config.rope.width = 4;
  config.norm = norm;
  config.norm_epsilon = 0.5f;
  return config;
}

std::vector<float> NormOf(model::NormKind norm, const TensorView& bias) {
  const model::Config config = ConfigOf(norm);
  ComputeFixture fixture(config, {.batch = 2, .context = 8, .num_threads = 1});
  const Scratch& scratch = fixture.scratch();
  const std::vector<float> x = {1.0f, 2.0f, 3.0f, 6.0f};
  std::copy(x.begin(), x.end(), scratch.residual.row(1));
  const OwnedTensor weight(DType::kF32, std::vector<float>{1, 1, 2, 1}, 4);
  Normalize(fixture.compute(), config, weight.view(), bias, scratch.residual, 2,
            scratch.normed);
  const auto row = scratch.normed.span(1);
  return std::vector<float>(row.begin(), row.end());
}

TEST(Norm, Rms) {
  const auto out = NormOf(model::NormKind::kRms, {});
  const double scale = 1.0 / std::sqrt(50.0 / 4 + 0.5);
  EXPECT_NEAR(out[0], scale, 1e-6);
  EXPECT_NEAR(out[2], 6.0 * scale, 1e-6);
}

TEST(Norm, LayerWithAndWithoutBias) {
  // mean 3, variance (4 + 1 + 0 + 9) / 4
  const double scale = 1.0 / std::sqrt(3.5 + 0.5);
  const auto plain = NormOf(model::NormKind::kLayer, {});
  EXPECT_NEAR(plain[0], -2.0 * scale, 1e-6);
  EXPECT_NEAR(plain[3], 3.0 * scale, 1e-6);
  const OwnedTensor bias(DType::kF32, std::vector<float>{5, 0, 0, 7}, 4);
  const auto shifted = NormOf(model::NormKind::kLayer, bias.view());
  EXPECT_NEAR(shifted[0], 5.0 - 2.0 * scale, 1e-6);
  EXPECT_NEAR(shifted[3], 7.0 + 3.0 * scale, 1e-6);
}

}  // namespace
}  // namespace thermocline::engine
