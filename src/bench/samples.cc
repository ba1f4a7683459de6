#include "bench/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thermocline::bench {

Moments MomentsOf(std::span<const double> samples) {
  const auto count = static_cast<double>(samples.size());
  const double mean =
      std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0.0;
  for (const double sample : samples)
    squares += (sample - mean) * (sample - mean);
  return {mean, samples.size() > 1 ? std::sqrt(squares / (count - 1.0)) : 0.0};
}

double MedianOf(std::vector<double> samples) {
  std::ranges::sort(samples);
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1
             ? samples[middle]
             : (samples[middle - 1] + samples[middle]) / 2.0;
}

std::vector<double> PercentilesOf(std::vector<double> samples,
                                  std::span<const double> shares) {
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  std::vector<double> percentiles;
  for (const double share : shares) {
    const auto rank =
        static_cast<size_t>(std::max(std::ceil(share * count - 1e-9), 1.0));
    percentiles.push_back(samples[std::min(rank, samples.size()) - 1]);
  }
  return percentiles;
}

size_t NumUndisturbed(std::span<const double> probe_rates, double best_rate) {
  return static_cast<size_t>(std::ranges::count_if(
      probe_rates,
      [&](double rate) { return rate >= kUndisturbedShare * best_rate; }));
}

bool NeedsMore(std::span<const double> probe_rates, double best_rate,
               size_t num_wanted) {
  return probe_rates.size() < num_wanted ||
         (NumUndisturbed(probe_rates, best_rate) < num_wanted &&
          probe_rates.size() < 2 * num_wanted);
}

std::vector<size_t> ChooseRepetitions(std::span<const double> probe_rates,
                                      double best_rate, size_t num_wanted) {
  std::vector<size_t> chosen(probe_rates.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  std::ranges::sort(chosen, [&](size_t a, size_t b) {
    if (probe_rates[a] != probe_rates[b])
      return probe_rates[a] > probe_rates[b];
    return a < b;
  });
  chosen.resize(
      std::min(chosen.size(), std::max(NumUndisturbed(probe_rates, best_rate),
                                       std::min<size_t>(num_wanted, 3))));
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace thermocline::bench
