#include "training/start.h"

#include <cmath>

#include "training/accuracy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

constexpr size_t kWidth = 32;
constexpr size_t kNeurons = 100;

struct Fixture {
  Fixture() : pool(TestPool(2)), gemm(pool.get()) {}
  std::unique_ptr<os::ThreadPool> pool;
  Gemm gemm;
  SyntheticLayer layer{kWidth, kNeurons, 4, 600, 1};
};

TEST(StartTest, MomentsAreThoseOfTheSamples) {
  Fixture f;
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  double mean0 = 0, mean1 = 0, product = 0;
  std::vector<float> x(kWidth);
  for (size_t n = 0; n < 600; ++n) {
    f.layer.samples.LoadInput(n, x.data());
    mean0 += double{x[0]} / 600;
    mean1 += double{x[1]} / 600;
    product += double{x[0]} * x[1] / 600;
  }
  EXPECT_NEAR(moments.mean[0], mean0, 1e-5);
  EXPECT_NEAR(moments.covariance[1], product - mean0 * mean1, 1e-5);
  EXPECT_EQ(moments.covariance[1], moments.covariance[kWidth]);
}

TEST(StartTest, UnitScaleMakesTheMeanSquareOne) {
  Fixture f;
  Samples samples = f.layer.samples;
  // Uniform in [-1, 1): the mean square is 1/3.
  EXPECT_NEAR(UnitScale(samples), std::sqrt(3.0), 0.03);
  samples.input_scale = UnitScale(samples);
  EXPECT_NEAR(UnitScale(samples), samples.input_scale, 1e-4);
}

// The gate has rank 4: an image of rank 4 says all of it.
TEST(StartTest, AnImageOfTheGatesRankIsTheGate) {
  Fixture f;
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  const GateImage image = FitImage(f.gemm, f.layer.gate, moments, 4, 0);
  std::vector<float> x(kWidth);
  for (size_t n = 0; n < 20; ++n) {
    f.layer.samples.LoadInput(n, x.data());
    std::vector<double> hidden(4);
    for (size_t r = 0; r < 4; ++r) {
      for (size_t j = 0; j < kWidth; ++j) {
        hidden[r] += double{image.up[r * kWidth + j]} * x[j];
      }
    }
    for (size_t i = 0; i < kNeurons; ++i) {
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
  Fixture f;
  for (size_t n = 0; n < 600; ++n) {
    for (size_t j = 2; j < kWidth; ++j) {
      f.layer.inputs[n * kWidth + j] = F32ToF16(0.25f);
    }
  }
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  const GateImage image = FitImage(f.gemm, f.layer.gate, moments, 8, 0);
  for (const float value : image.up) EXPECT_TRUE(std::isfinite(value));
  for (const float value : image.down) EXPECT_TRUE(std::isfinite(value));
  const LowRank start = StartFrom(image, moments, 8);
  for (const float value : start.down_bias) EXPECT_TRUE(std::isfinite(value));
}

TEST(StartTest, IsAPredictorAlready) {
  Fixture f;
  const InputMoments moments = ComputeMoments(f.gemm, f.layer.samples);
  const GateImage image = FitImage(f.gemm, f.layer.gate, moments, 4, 0);
  const RoundedPredictor start = {.values = StartFrom(image, moments, 4),
                                  .dtype = DType::kF32};
  const Accuracy accuracy = Measure(f.gemm, start, f.layer.samples, 0.0f);
  EXPECT_GT(accuracy.recall(), 0.98);
  EXPECT_LT(accuracy.candidates_per_fired(), 1.05);
}

// An earlier layer's input that is a linear image of the own one tells as much.
TEST(StartTest, LooksAheadThroughALinearMap) {
  Fixture f;
  std::vector<uint16_t> earlier(600 * kWidth);
  std::vector<float> x(kWidth);
  for (size_t n = 0; n < 600; ++n) {
    f.layer.samples.LoadInput(n, x.data());
    for (size_t j = 0; j < kWidth; ++j) {
      earlier[n * kWidth + j] =
          F32ToF16(x[(j + 1) % kWidth] - 0.5f * x[j] + 0.3f);
    }
  }
  Samples before = f.layer.samples;
  before.inputs = earlier.data();
  const GateRows rows =
      LookAhead(f.gemm, f.layer.gate, before, f.layer.samples);
  for (size_t n = 0; n < 20; ++n) {
    before.LoadInput(n, x.data());
    for (size_t i = 0; i < kNeurons; ++i) {
      double margin = double{rows.biases[i]};
      for (size_t j = 0; j < kWidth; ++j) {
        margin += double{rows.rows[i * kWidth + j]} * x[j];
      }
      EXPECT_NEAR(margin, f.layer.Margin(n, i), 0.05);
    }
  }
}

}  // namespace
}  // namespace thermocline::training
