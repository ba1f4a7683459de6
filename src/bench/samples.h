// What repetitions of a measurement say, and which of them count.
#ifndef THERMOCLINE_BENCH_SAMPLES_H_
#define THERMOCLINE_BENCH_SAMPLES_H_

#include <cstddef>
#include <span>
#include <vector>

namespace thermocline::bench {

// Of at least one sample; the deviation of one alone is 0.
struct Moments {
  double mean, stddev;
};
Moments MomentsOf(std::span<const double> samples);

// Of at least one sample.
double MedianOf(std::vector<double> samples);

// For each of `shares` (0 to 1) the least sample that so large a share of all
// does not exceed (nearest rank). Of at least one sample.
std::vector<double> PercentilesOf(std::vector<double> samples,
                                  std::span<const double> shares);

// A repetition before which the read probe found less than this share of the
// best rate shared the machine with somebody else.
inline constexpr double kUndisturbedShare = 0.85;

size_t NumUndisturbed(std::span<const double> probe_rates, double best_rate);

// Whether another repetition follows those that had these rates: until
// num_wanted are undisturbed, but of no more than twice as many.
bool NeedsMore(std::span<const double> probe_rates, double best_rate,
               size_t num_wanted);

// Indices of the repetitions to report, ascending: the undisturbed ones; where
// they are fewer than three (or num_wanted, if that is less), those with the
// best probes.
std::vector<size_t> ChooseRepetitions(std::span<const double> probe_rates,
                                      double best_rate, size_t num_wanted);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_SAMPLES_H_
