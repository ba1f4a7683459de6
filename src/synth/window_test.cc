#include "synth/window.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thermocline::synth {
namespace {

std::vector<double> Frequencies(size_t num_pairs, double base) {
  std::vector<double> frequencies;
  for (size_t i = 0; i < num_pairs; ++i) {
    frequencies.push_back(std::pow(
        base, -static_cast<double>(i) / static_cast<double>(num_pairs)));
  }
  return frequencies;
}

TEST(SynthWindowTest, TheStreamHasTheVarianceAndCorrelationAskedFor) {
  for (const double base : {1e4, 1e6}) {
    const auto frequencies = Frequencies(64, base);
    for (const double correlation : {0.0, 0.3, 0.47, 0.7, 0.9, 0.95}) {
      const Window window = SolveWindow(frequencies, correlation);
      auto weights = WindowWeights(frequencies, window.first_frequency,
                                   window.num_frequencies);
      for (double& weight : weights) weight *= window.window_gain;
      weights[0] += window.token_gain;
      double variance = 0.0;
      double covariance = 0.0;
      for (size_t d = 0; d < weights.size(); ++d) {
        variance += weights[d] * weights[d];
        if (d > 0) covariance += weights[d] * weights[d - 1];
      }
      EXPECT_NEAR(variance, 1.0, 1e-9);
      EXPECT_NEAR(covariance, correlation, 1e-5);
      EXPECT_NEAR(weights[0], window.newest, 1e-9);
      EXPECT_GT(weights[0], weights[1]);
    }
  }
}

TEST(SynthWindowTest, TheWindowFadesAndDoesNotComeBack) {
  const auto frequencies = Frequencies(64, 1e4);
  const Window window = SolveWindow(frequencies, 0.9);
  const auto weights = WindowWeights(frequencies, window.first_frequency,
                                     window.num_frequencies);
  double far = 0.0;
  for (size_t d = 200; d < weights.size(); ++d) far += weights[d];
  EXPECT_LT(far, 0.01);
  EXPECT_GT(weights[0], weights[5]);
}

TEST(SynthWindowTest, WithFewFrequenciesItTakesTheWidest) {
  const Window window = SolveWindow({0.5, 0.4}, 0.95);
  EXPECT_GT(window.window_gain, 0.0);
  EXPECT_GT(window.token_gain, 0.0);
}

}  // namespace
}  // namespace thermocline::synth
