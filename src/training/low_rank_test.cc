#include "training/low_rank.h"

#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::ElementsAre;

TEST(LowRankTest, ScoresByHand) {
  const auto pool = TestPool(1);
  const Gemm gemm(pool.get());
  LowRank predictor = LowRank::Zeros(2, 2, 3);
  predictor.up = {1, 0, 0, -2};
  predictor.up_bias = {0.5f, 1};
  predictor.down = {1, 1, 2, 0, 0, -3};
  predictor.down_bias = {0, -1, 10};
  const std::vector<float> x = {1, 2, -1, 0};
  std::vector<float> hidden(4);
  Hidden(gemm, predictor, x.data(), 2, hidden.data());
  EXPECT_THAT(hidden, ElementsAre(1.5f, 0, 0, 1));
  std::vector<float> scores(6);
  ScoresOfHidden(gemm, predictor, hidden.data(), 2, scores.data());
  EXPECT_THAT(scores, ElementsAre(1.5f, 2, 10, 1, -1, 7));
}

TEST(SamplesTest, ThinnedSamplesLieAtEvenDistances) {
  const std::vector<uint16_t> inputs = {F32ToF16(0), F32ToF16(1), F32ToF16(2),
                                        F32ToF16(3), F32ToF16(4), F32ToF16(5)};
  const std::vector<uint64_t> fired = {1, 3, 7, 15, 31, 63};
  Samples samples = {{.num_neurons = 6}};
  samples.num_samples = 6;
  samples.width = 1;
  samples.inputs = inputs.data();
  samples.fired = fired.data();
  samples.input_scale = 10;
  EXPECT_EQ(CountFired(samples), 21u);
  const Samples thinned = samples.Thinned(3);
  ASSERT_EQ(thinned.num_samples, 3u);
  EXPECT_EQ(CountFired(thinned), 1u + 3 + 5);
  float x = 0;
  thinned.LoadInput(2, &x);
  EXPECT_EQ(x, 40);
  const Samples twice = thinned.Thinned(1);
  ASSERT_EQ(twice.num_samples, 1u);
  EXPECT_EQ(*twice.fired_of(0), 1u);
  EXPECT_EQ(samples.Thinned(6).step, 1u);
}

}  // namespace
}  // namespace thermocline::training
