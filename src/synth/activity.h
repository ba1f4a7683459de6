// How often the neurons of a synthetic model fire: shares for a wanted density
// and skew, and what of one token's set the next token shares.
#ifndef THERMOCLINE_SYNTH_ACTIVITY_H_
#define THERMOCLINE_SYNTH_ACTIVITY_H_

#include <cstddef>
#include <vector>

#include "base/status.h"

namespace thermocline::synth {

// The busiest neuron fires for this share of all tokens.
inline constexpr double kMaxShare = 0.95;
inline constexpr double kMaxCandidateShare = 0.99;
inline constexpr double kMaxDensity = 0.5;
// The smallest part of the neurons that makes this share of all activations is
// the skew.
inline constexpr double kSkewMass = 0.8;

// P(neuron fires), from the busiest to the rarest [num_neurons]: a power law of
// the rank, cut off at kMaxShare, whose mean is `density` and whose skew is
// `skew`. kInvalidArgument: a density outside (0, kMaxDensity]; a skew that no
// such law has, with the range that is possible for the density.
Result<std::vector<double>> SolveShares(size_t num_neurons, double density,
                                        double skew);

// The smallest part of `shares` (descending) that makes kSkewMass of their sum.
double SkewOf(const std::vector<double>& shares);

// P(neuron is a candidate): shares times one factor, cut off at
// kMaxCandidateShare, so that the sum is `ratio` times that of the shares.
// Requires that this is possible: ratio * mean < kMaxCandidateShare. (CHECKed)
std::vector<double> CandidateShares(const std::vector<double>& shares,
                                    double ratio);

// The mean of |A_t and A_(t-1)| / |A_t| when every neuron fires where a normal
// variable exceeds its threshold, and those of successive tokens have a
// correlation. From independent to nearly equal tokens.
struct LocalityRange {
  double low;
  double high;
};
inline constexpr double kMaxCorrelation = 0.95;
LocalityRange PossibleLocality(const std::vector<double>& shares);

// The correlation, 0 to kMaxCorrelation, that gives `locality`.
// kInvalidArgument: outside PossibleLocality, which the message tells.
Result<double> SolveCorrelation(const std::vector<double>& shares,
                                double locality);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_ACTIVITY_H_
