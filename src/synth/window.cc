#include "synth/window.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "synth/math.h"

namespace thermocline::synth {
namespace {

// The bell's foot: frequencies over this range, so that cosines which come
// back together far from the newest token are few.
constexpr double kFrequencyRange = 30.0;
// Faster ones leave nothing but the newest token.
constexpr double kMaxFrequency = 0.6;
// Of the window's weight of the newest token, what is added to it at least: the
// newest stands out, and greedy decoding finds its way by it.
constexpr double kMinTokenGain = 0.3;

// The stream as a sum over past tokens: weights behind window_gain 1.
struct Sums {
  double square = 0.0;     // of the weights: the variance
  double neighbour = 0.0;  // of products of neighbours: covariance at lag 1
};

Sums SumsOf(const std::vector<double>& weights) {
  Sums sums;
  for (size_t d = 0; d < weights.size(); ++d) {
    sums.square += weights[d] * weights[d];
    if (d > 0) sums.neighbour += weights[d] * weights[d - 1];
  }
  return sums;
}

// With `gain` more of the newest token.
double CorrelationOf(const std::vector<double>& weights, const Sums& sums,
                     double gain) {
  return (sums.neighbour + gain * weights[1]) /
         (sums.square + 2.0 * gain * weights[0] + gain * gain);
}

size_t CountInRange(const std::vector<double>& frequencies) {
  const double ratio = frequencies[0] / frequencies[1];
  const double count = StableLog(kFrequencyRange) / StableLog(ratio);
  return std::clamp<size_t>(static_cast<size_t>(count), 1, frequencies.size());
}

}  // namespace

std::vector<double> WindowWeights(const std::vector<double>& frequencies,
                                  size_t first, size_t count) {
  std::vector<double> weights;
  double total = 0.0;
  for (size_t d = 0; d < kWindowPositions; ++d) {
    double sum = 0.0;
    for (size_t i = first; i < first + count; ++i) {
      sum += StableCos(frequencies[i] * static_cast<double>(d));
    }
    const double score = kScorePeak * (sum / static_cast<double>(count) - 1.0);
    weights.push_back(StableExp(score));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

Window SolveWindow(const std::vector<double>& frequencies, double correlation) {
  TC_CHECK(frequencies.size() >= 2 && frequencies[0] > frequencies[1]);
  Window window;
  window.num_frequencies = CountInRange(frequencies);
  std::vector<double> weights;
  Sums sums;
  size_t first = 0;
  for (; first + window.num_frequencies <= frequencies.size(); ++first) {
    if (frequencies[first] > kMaxFrequency) continue;
    weights = WindowWeights(frequencies, first, window.num_frequencies);
    sums = SumsOf(weights);
    window.first_frequency = first;
    if (CorrelationOf(weights, sums, kMinTokenGain * weights[0]) >=
        correlation) {
      break;
    }
  }
  TC_CHECK(!weights.empty());
  // The more of the newest token, the less correlation.
  double low = kMinTokenGain * weights[0];
  double high = 1e6;
  for (int i = 0; i < 80; ++i) {
    const double middle = 0.5 * (low + high);
    (CorrelationOf(weights, sums, middle) > correlation ? low : high) = middle;
  }
  const double deviation =
      std::sqrt(sums.square + 2.0 * low * weights[0] + low * low);
  window.token_gain = low / deviation;
  window.window_gain = 1.0 / deviation;
  window.newest = (low + weights[0]) / deviation;
  return window;
}

}  // namespace thermocline::synth
