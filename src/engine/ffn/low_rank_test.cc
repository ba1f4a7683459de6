#include "engine/ffn/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/testing/compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using ::testing::ElementsAre;
using testing::MembersOf;
using testing::OwnedTensor;

TEST(LowRankSelector, ScoresWithReluAndBiases) {
  model::Config config;
  config.width = 2;
  config.ffn_width = 4;
  config.num_heads = config.num_kv_heads = 1;
  config.key_width = config.value_width = config.rope.width = 2;
  config.predictor = {.kind = model::PredictorKind::kKairox, .lookahead = 1};
  ComputeFixture fixture(
      config,
      {.batch = 2, .context = 1, .num_threads = 2, .ffn = FfnMode::kFast});
  const OwnedTensor up(DType::kF32, std::vector<float>{1, 0, 0, 1, 1, 1}, 2);
  const OwnedTensor up_bias(DType::kF32, std::vector<float>{0, 0, -2}, 3);
  const OwnedTensor down(
      DType::kF32, std::vector<float>{1, 0, 0, -1, 1, 0, 0, 0, 1, 0, 0, -1}, 3);
  const OwnedTensor down_bias(DType::kF32, std::vector<float>{0, 0, -1, 0.5f},
                              4);
  model::PredictorWeights weights;
  weights.up = up.view();
  weights.down = down.view();
  const Scratch& scratch = fixture.scratch();
  const Rows& x = scratch.residual;
  x.row(0)[0] = 2.0f;
  x.row(0)[1] = 1.0f;
  x.row(1)[0] = -3.0f;
  x.row(1)[1] = 1.0f;
  const auto predict = [&](float threshold, size_t layer_idx) {
    MakeLowRankSelector(weights, threshold, layer_idx, &fixture.compute(),
                        &scratch)
        ->Select(x, 2);
  };
  // Hidden 2 1 3 and 0 1 0; scores 2 -1 3 -3 and 0 1 0 0.
  predict(0.0f, 0);
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(0, 0)), ElementsAre(0, 2));
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(0, 1)),
              ElementsAre(0, 1, 2, 3));
  weights.up_bias = up_bias.view();
  weights.down_bias = down_bias.view();
  // Hidden 2 1 1 and 0 1 0; scores 2 -1 0 -0.5 and 0 1 -1 0.5.
  predict(0.0f, 1);
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(1, 0)), ElementsAre(0, 2));
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(1, 1)), ElementsAre(0, 1, 3));
  // The list of layer 0 is still there; layer 2 takes its place.
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(0, 0)), ElementsAre(0, 2));
  predict(0.5f, 2);
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(0, 0)), ElementsAre(0));
  EXPECT_THAT(MembersOf(scratch.sparse.candidates(0, 1)), ElementsAre(1, 3));
}

// Rows that several threads take, of every number: the sets are those of the
// scores, up to the last neuron.
TEST(LowRankSelector, EveryNeuronOfManyPieces) {
  for (const int64_t num_neurons : {63, 64, 65, 4097}) {
    model::Config config;
    config.width = 1;
    config.ffn_width = num_neurons;
    config.num_heads = config.num_kv_heads = 1;
    config.key_width = config.value_width = config.rope.width = 2;
    ComputeFixture fixture(
        config,
        {.batch = 2, .context = 1, .num_threads = 3, .ffn = FfnMode::kFast},
        kernels::BestIsa());
    // Rank 32, so that rows make many pieces; score i is x or 1 - x.
    std::vector<float> down(static_cast<size_t>(num_neurons) * 32);
    std::vector<float> bias(static_cast<size_t>(num_neurons));
    std::vector<size_t> odd;
    for (size_t i = 0; i < bias.size(); ++i) {
      down[i * 32] = i % 3 == 1 ? -1.0f : 1.0f;
      bias[i] = i % 3 == 1 ? 1.0f : -2.0f;
      if (i % 3 == 1) odd.push_back(i);
    }
    const OwnedTensor up(DType::kF32, std::vector<float>(32, 1.0f), 1);
    const OwnedTensor owned_down(DType::kF32, down, 32);
    const OwnedTensor owned_bias(DType::kF32, bias,
                                 static_cast<uint64_t>(num_neurons));
    model::PredictorWeights weights;
    weights.up = up.view();
    weights.down = owned_down.view();
    weights.down_bias = owned_bias.view();
    const Scratch& scratch = fixture.scratch();
    scratch.normed.row(0)[0] = 1.0f;
    scratch.normed.row(1)[0] = 0.5f;
    const auto selector =
        MakeLowRankSelector(weights, 0.0f, 0, &fixture.compute(), &scratch);
    selector->Select(scratch.normed, 2);
    EXPECT_EQ(MembersOf(scratch.sparse.candidates(0, 0)), odd);
    EXPECT_EQ(MembersOf(scratch.sparse.candidates(0, 1)), odd);
    EXPECT_EQ(selector->num_bytes(), 4u * 32 * (1 + num_neurons));
  }
}

}  // namespace
}  // namespace thermocline::engine
