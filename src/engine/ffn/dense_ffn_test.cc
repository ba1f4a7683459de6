#include "engine/ffn/dense_ffn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/testing/test_compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;

model::Config DenseConfig() {
  model::Config config;
  config.width = 2;
  config.layers = {
      model::LayerSpec{.ffn = {.activation = Activation::kRelu, .width = 3}}};
  return config;
}

struct DenseWeights {
  OwnedTensor gate{DType::kF32, std::vector<float>{1, 0, 0, 1, -1, -1}, 2};
  OwnedTensor up{DType::kF32, std::vector<float>{2, 1, 1, 2, 5, 5}, 2};
  OwnedTensor down{DType::kF32, std::vector<float>{1, 10, 100, 0, 1, 0}, 3};
  OwnedTensor gate_bias{DType::kF32, std::vector<float>{0, 0, 9}, 3};
  OwnedTensor up_bias{DType::kF32, std::vector<float>{0, -8, 0}, 3};
  OwnedTensor down_bias{DType::kF32, std::vector<float>{0.5f, 0.25f}, 2};
};

std::vector<float> RunOn(const model::Config& config,
                         const model::FfnWeights& weights) {
  ComputeFixture fixture(config, {.batch = 3, .context = 4, .num_threads = 2});
  const compute::Rows& x = fixture.scratch().normed;
  for (size_t t = 0; t < 3; ++t) {
    x.row(t)[0] = 1.0f;
    x.row(t)[1] = 2.0f;
  }
  EXPECT_TRUE(MakeDenseFfn(&config.layers[0].ffn, &weights, &fixture.compute(),
                           &fixture.ffn_scratch())
                  ->Run(fixture.CallOf(3)));
  const auto first = fixture.scratch().delta.span(0);
  const auto last = fixture.scratch().delta.span(2);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), last.begin()));
  return {last.begin(), last.end()};
}

TEST(DenseFfn, Gated) {
  const DenseWeights w;
  model::FfnWeights weights;
  weights.gate = w.gate.view();
  weights.up = w.up.view();
  weights.down = w.down.view();
  // gate 1 2 -3, up 4 5 15, hidden 4 10 0
  EXPECT_EQ(RunOn(DenseConfig(), weights), (std::vector<float>{104, 10}));
}

TEST(DenseFfn, GatedWithBiases) {
  const DenseWeights w;
  model::FfnWeights weights;
  weights.gate = w.gate.view();
  weights.up = w.up.view();
  weights.down = w.down.view();
  weights.gate_bias = w.gate_bias.view();
  weights.up_bias = w.up_bias.view();
  weights.down_bias = w.down_bias.view();
  // gate 1 2 6, up 4 -3 15, hidden 4 -6 90
  EXPECT_EQ(RunOn(DenseConfig(), weights),
            (std::vector<float>{4 - 60 + 9000 + 0.5f, -6 + 0.25f}));
  model::Config drelu = DenseConfig();
  drelu.layers[0].ffn.activation = Activation::kDRelu;  // up's -3 is cut too
  EXPECT_EQ(RunOn(drelu, weights), (std::vector<float>{9004.5f, 0.25f}));
}

TEST(DenseFfn, WithoutGate) {
  const DenseWeights w;
  model::FfnWeights weights;
  weights.up = w.up.view();
  weights.up_bias = w.up_bias.view();
  weights.down = w.down.view();
  model::Config config = DenseConfig();
  config.layers[0].ffn.gated = false;
  // up 4 -3 15, hidden 4 0 15
  EXPECT_EQ(RunOn(config, weights), (std::vector<float>{1504, 0}));
}

}  // namespace
}  // namespace thermocline::engine
