#include "training/training_free_fit.h"

#include "training/testing.h"

namespace thermocline::training {
namespace {

FittedTrainingFree Fit(size_t width, double max_bytes_share,
                       size_t num_experts = 1, size_t num_used = 1) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  const SyntheticLayer layer(width, 256 * num_experts, 6, 1500, 1, num_experts,
                             num_used);
  const FitData data = {.train = layer.Train(500),
                        .held_out = layer.HeldOut(500),
                        .gate = layer.ScaledGate(),
                        .ffn_bytes = 3 * width * 256 * 2};
  return FitTrainingFree(
      gemm, data,
      {.max_bytes_share = max_bytes_share,
       .kernels = &kernels::KernelsFor(kernels::Isa::kScalar)});
}

TEST(TrainingFreeFitTest, SignsThenTheMargin) {
  const FittedTrainingFree fitted = Fit(128, 0.5);
  ASSERT_TRUE(fitted.predictor.has_value());
  EXPECT_EQ(fitted.predictor->signs.size(), 256u * 2);
  EXPECT_EQ(fitted.num_sign_bytes, 256u * 16);
  EXPECT_GE(fitted.rank, 32u);
  EXPECT_EQ(fitted.num_margin_bytes, fitted.predictor->up.bytes.size() +
                                         fitted.predictor->down.bytes.size() +
                                         fitted.predictor->bias.size() * 4);
  // Signs lose half of what may be lost, at most; the margin the rest.
  EXPECT_GE(fitted.signs.recall(), 0.995);
  EXPECT_LT(fitted.signs.candidates_per_fired(), 1 / fitted.signs.density());
  EXPECT_GE(fitted.accuracy.recall(), 0.97);
  EXPECT_LT(fitted.accuracy.candidates_per_fired(),
            fitted.signs.candidates_per_fired());
  EXPECT_LT(fitted.accuracy.candidates_per_fired(), 1.6);
}

// Bytes are those of one expert; neurons of others count nowhere.
TEST(TrainingFreeFitTest, AMixture) {
  const FittedTrainingFree fitted = Fit(128, 0.5, 4, 2);
  ASSERT_TRUE(fitted.predictor.has_value());
  EXPECT_EQ(fitted.predictor->signs.size(), 4u * 256 * 2);
  EXPECT_EQ(fitted.num_sign_bytes, 256u * 16);
  EXPECT_GE(fitted.rank, 32u);
  EXPECT_EQ(fitted.signs.num_neurons, 512u);
  EXPECT_LE(fitted.signs.num_candidates, 512u * fitted.signs.num_samples);
  EXPECT_GE(fitted.signs.recall(), 0.995);
  EXPECT_GE(fitted.accuracy.recall(), 0.97);
  EXPECT_LT(fitted.accuracy.candidates_per_fired(), 1.6);
}

// Neurons that fire whatever the gate says let no sign tell them apart.
TEST(TrainingFreeFitTest, NoneThatLetsNearlyEveryNeuronPass) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  SyntheticLayer layer(128, 256, 6, 1500, 1);
  const FitData data = {.train = layer.Train(500),
                        .held_out = layer.HeldOut(500),
                        .gate = layer.ScaledGate(),
                        .ffn_bytes = 3 * 128 * 256 * 2};
  const TrainingFreeOptions options = {
      .max_bytes_share = 0.5,
      .kernels = &kernels::KernelsFor(kernels::Isa::kScalar)};
  Random random(2);
  for (uint64_t& word : layer.fired) word = random.Next();
  FittedTrainingFree fitted = FitTrainingFree(gemm, data, options);
  EXPECT_FALSE(fitted.predictor.has_value());
  EXPECT_NEAR(fitted.accuracy.density(), 0.5, 0.01);
  std::ranges::fill(layer.fired, 0u);
  fitted = FitTrainingFree(gemm, data, options);
  EXPECT_FALSE(fitted.predictor.has_value());
  EXPECT_EQ(fitted.accuracy.num_fired, 0u);
}

TEST(TrainingFreeFitTest, SignsAloneWhereBytesAreFew) {
  const FittedTrainingFree fitted = Fit(128, 0.03);
  ASSERT_TRUE(fitted.predictor.has_value());
  EXPECT_EQ(fitted.rank, 0u);
  EXPECT_TRUE(fitted.predictor->up.empty());
  EXPECT_EQ(fitted.accuracy.num_candidates, fitted.signs.num_candidates);
}

}  // namespace
}  // namespace thermocline::training
