#include "training/accuracy.h"

#include <cmath>
#include <limits>

#include "training/start.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

std::vector<float> Ramp(int first, int last) {
  std::vector<float> out;
  for (int i = first; i <= last; ++i) out.push_back(static_cast<float>(i));
  return out;
}

TEST(AccuracyTest, RatiosAndTheirLimits) {
  const Accuracy accuracy = {.num_samples = 10,
                             .num_neurons = 100,
                             .num_fired = 100,
                             .num_candidates = 150,
                             .num_hits = 90};
  EXPECT_DOUBLE_EQ(accuracy.density(), 0.1);
  EXPECT_DOUBLE_EQ(accuracy.recall(), 0.9);
  EXPECT_DOUBLE_EQ(accuracy.precision(), 0.6);
  EXPECT_DOUBLE_EQ(accuracy.candidates_per_fired(), 1.5);
  const Accuracy none = {.num_samples = 10, .num_neurons = 100};
  EXPECT_EQ(none.recall(), 1);
  EXPECT_EQ(none.precision(), 1);
  EXPECT_EQ(none.candidates_per_fired(), 0);
}

// Scores 1 to 100; 81 to 100 fired, and 11 to 15.
TEST(ChooseThresholdTest, RecallThenCandidatesThenTheFloor) {
  const auto choose = [](const RecallGoal& goal) {
    std::vector<float> scores = Ramp(1, 100);
    std::vector<float> of_fired = Ramp(81, 100);
    for (const float score : Ramp(11, 15)) of_fired.push_back(score);
    return ChooseThreshold(scores, of_fired, goal);
  };
  EXPECT_EQ(choose({.recall = 1.0, .max_candidates = 100}), 10.5);
  EXPECT_EQ(choose({.recall = 0.8, .max_candidates = 100}), 80.5);
  // At most 50 candidates: 51 to 100.
  EXPECT_NEAR(choose({.recall = 1.0, .recall_floor = 0.5, .max_candidates = 2}),
              50, 1e-3);
  // Not at the price of so much recall.
  EXPECT_EQ(choose({.recall = 1.0, .recall_floor = 0.9, .max_candidates = 2}),
            12.5);
}

// As many candidates as there are scores: nothing is looked at behind them.
TEST(ChooseThresholdTest, EveryScoreMayBeACandidate) {
  std::vector<float> scores = Ramp(1, 101);
  scores.pop_back();
  std::vector<float> of_fired = Ramp(51, 100);
  EXPECT_EQ(
      ChooseThreshold(scores, of_fired, {.recall = 1.0, .max_candidates = 2}),
      50.5);
}

TEST(ChooseThresholdTest, NothingLiesLower) {
  std::vector<float> scores = Ramp(1, 10);
  std::vector<float> of_fired = Ramp(1, 3);
  EXPECT_EQ(
      ChooseThreshold(scores, of_fired, {.recall = 1.0, .max_candidates = 9}),
      1);
}

// Half of their distance would be the lower one.
TEST(ChooseThresholdTest, NeighboursAmongFloats) {
  const float low = 1.0f;
  const float high = std::nextafter(low, 2.0f);
  std::vector<float> scores = {low, high};
  std::vector<float> of_fired = {high};
  EXPECT_EQ(
      ChooseThreshold(scores, of_fired, {.recall = 1.0, .max_candidates = 9}),
      high);
}

TEST(ChooseThresholdTest, NothingFired) {
  std::vector<float> scores = Ramp(1, 10);
  std::vector<float> of_fired;
  EXPECT_EQ(ChooseThreshold(scores, of_fired, {}),
            -std::numeric_limits<float>::infinity());
}

TEST(AccuracyTest, AThresholdGivesTheRecallThatWasAskedFor) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  const SyntheticLayer layer(32, 96, 6, 700, 1);
  const InputMoments moments = ComputeMoments(gemm, layer.samples);
  const GateImage image = FitImage(gemm, layer.ScaledGate(),
                                   layer.samples.num_neurons, moments, 3, 0);
  const RoundedPredictor predictor = {.values = StartFrom(image, moments, 3),
                                      .dtype = DType::kF32};
  for (const double recall : {0.8, 0.95, 1.0}) {
    const float threshold =
        ThresholdFor(gemm, predictor, layer.samples,
                     {.recall = recall, .max_candidates = 1e9});
    const Accuracy accuracy =
        Measure(gemm, predictor, layer.samples, threshold);
    EXPECT_GE(accuracy.recall(), recall);
    EXPECT_LT(accuracy.recall(), recall + 0.01);
  }
}

// Small rows beside large ones: each has scales of its own.
TEST(AccuracyTest, RowsAreRoundedByThemselves) {
  LowRank predictor = LowRank::Zeros(64, 32, 40);
  Random random(1);
  const auto fill = [&](size_t width, std::vector<float>& values) {
    for (size_t k = 0; k < values.size(); ++k) {
      const float size = k / width % 2 == 0 ? 1.0f : 1000.0f;
      values[k] = size * random.Uniform(-1, 1);
    }
  };
  fill(64, predictor.up);
  fill(32, predictor.down);
  const auto expect_near = [](size_t width, const std::vector<float>& rounded,
                              const std::vector<float>& values) {
    for (size_t k = 0; k < values.size(); ++k) {
      const double size = k / width % 2 == 0 ? 1.0 : 1000.0;
      // Half of a step, and the scale's own rounding to 16 bits.
      EXPECT_NEAR(rounded[k], values[k], size * (0.5 / 127 + 1.0 / 2048)) << k;
    }
  };
  for (const DType dtype : {DType::kF16, DType::kQ8_0}) {
    const LowRank rounded = Round(predictor, dtype).values;
    expect_near(64, rounded.up, predictor.up);
    expect_near(32, rounded.down, predictor.down);
  }
}

TEST(AccuracyTest, RoundingToEightBitsChangesScoresALittle) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  const SyntheticLayer layer(64, 96, 8, 100, 2);
  const InputMoments moments = ComputeMoments(gemm, layer.samples);
  const LowRank start =
      StartFrom(FitImage(gemm, layer.ScaledGate(), layer.samples.num_neurons,
                         moments, 32, 0),
                moments, 32);
  std::vector<float> fine;
  const auto keep = [&](size_t, size_t count, const float* scores) {
    fine.insert(fine.end(), scores, scores + count * 96);
  };
  ForEachScores(gemm, {.values = start, .dtype = DType::kF32}, layer.samples,
                keep);
  double error = 0, size = 0;
  ForEachScores(gemm, Round(start, DType::kQ8_0), layer.samples,
                [&](size_t begin, size_t count, const float* scores) {
                  for (size_t k = 0; k < count * 96; ++k) {
                    const double want = double{fine[begin * 96 + k]};
                    error += std::pow(double{scores[k]} - want, 2);
                    size += want * want;
                  }
                });
  EXPECT_GT(error, 0);
  EXPECT_LT(error / size, 1e-3);
}

}  // namespace
}  // namespace thermocline::training
