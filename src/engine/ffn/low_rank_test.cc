#include "engine/ffn/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/testing/compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using ::testing::ElementsAre;
using testing::OwnedTensor;

std::vector<size_t> MembersOf(const predictor::NeuronSet& set) {
  std::vector<size_t> members;
  set.ForEachIn(0, set.num_neurons, [&](size_t i) { members.push_back(i); });
  return members;
}

TEST(PredictCandidates, ScoresWithReluAndBiases) {
  model::Config config;
  config.width = 2;
  config.ffn_width = 4;
  config.num_heads = config.num_kv_heads = 1;
  config.key_width = config.value_width = config.rope.width = 2;
  config.predictor.kind = model::PredictorKind::kKairox;
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
    PredictCandidates(fixture.compute(), scratch, weights, threshold, x, 2,
                      layer_idx);
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

}  // namespace
}  // namespace thermocline::engine
