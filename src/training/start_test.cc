#include "training/start.h"

#include <cmath>

#include "training/accuracy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

// The gate has rank 4: an image of rank 4 says all of it.
TEST(StartTest, AnImageOfTheGatesRankIsTheGate) {
  GateFixture f;
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  const GateImage image =
      FitImage(f.gemm, f.layer.ScaledGate(), kGateNeurons, moments, 4, 0);
  std::vector<float> x(kGateWidth);
  for (size_t n = 0; n < 20; ++n) {
    f.layer.samples.LoadInput(n, x.data());
    std::vector<double> hidden(4);
    for (size_t r = 0; r < 4; ++r) {
      for (size_t j = 0; j < kGateWidth; ++j) {
        hidden[r] += double{image.up[r * kGateWidth + j]} * x[j];
      }
    }
    for (size_t i = 0; i < kGateNeurons; ++i) {
      double margin = double{image.bias[i]};
      for (size_t r = 0; r < 4; ++r) {
        margin += double{image.down[i * 4 + r]} * hidden[r];
      }
      EXPECT_NEAR(margin * double{image.deviation[i]}, f.layer.Margin(n, i),
                  1e-3);
    }
  }
}

// Rows of the inputs that never vary are no directions, and no harm.
TEST(StartTest, InputsWithFewDirections) {
  GateFixture f;
  for (size_t n = 0; n < 600; ++n) {
    for (size_t j = 2; j < kGateWidth; ++j) {
      f.layer.inputs[n * kGateWidth + j] = F32ToF16(0.25f);
    }
  }
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  const GateImage image =
      FitImage(f.gemm, f.layer.ScaledGate(), kGateNeurons, moments, 8, 0);
  for (const float value : image.up) EXPECT_TRUE(std::isfinite(value));
  for (const float value : image.down) EXPECT_TRUE(std::isfinite(value));
  const LowRank start = StartFrom(image, moments, 8);
  for (const float value : start.down_bias) EXPECT_TRUE(std::isfinite(value));
}

TEST(StartTest, IsAPredictorAlready) {
  GateFixture f;
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  const GateImage image =
      FitImage(f.gemm, f.layer.ScaledGate(), kGateNeurons, moments, 4, 0);
  const RoundedPredictor start = {.values = StartFrom(image, moments, 4),
                                  .dtype = DType::kF32};
  const Accuracy accuracy = Measure(f.gemm, start, f.layer.samples, 0.0f);
  EXPECT_GT(accuracy.recall(), 0.98);
  EXPECT_LT(accuracy.candidates_per_fired(), 1.05);
}

// Directions come from a part of the rows; what they say of each expert's
// neurons, from all of them.
TEST(StartTest, AMixturesImageIsItsGate) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  const SyntheticLayer layer(kGateWidth, 4 * kGateNeurons, 4, 600, 1, 4, 2);
  const InputMoments moments = ComputeMoments(gemm, layer.samples);
  const GateImage image =
      FitImage(gemm, layer.ScaledGate(), 4 * kGateNeurons, moments, 4, 0);
  const RoundedPredictor start = {.values = StartFrom(image, moments, 4),
                                  .dtype = DType::kF32};
  const Accuracy accuracy = Measure(gemm, start, layer.samples, 0.0f);
  EXPECT_EQ(accuracy.num_neurons, 2 * kGateNeurons);
  EXPECT_GT(accuracy.recall(), 0.98);
  EXPECT_LT(accuracy.candidates_per_fired(), 1.05);
}

}  // namespace
}  // namespace thermocline::training
