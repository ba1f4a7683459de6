// Which experts the tokens of a synthetic mixture choose: how unevenly, and how
// much of one token's choice the next token shares.
#ifndef THERMOCLINE_SYNTH_EXPERTS_H_
#define THERMOCLINE_SYNTH_EXPERTS_H_

#include <cstddef>
#include <vector>

#include "base/status.h"

namespace thermocline::synth {

// A router's logit of expert e is Z_e + bias_e, where the Z are standard normal
// and independent among experts; a token chooses the `num_used` largest.
// What follows from it is counted over the same random numbers each time, so
// that results are the same on every machine. Cost: some 100 ms.

// The biases, from the busiest expert to the rarest [num_experts], by which the
// smallest share of the experts that makes 80 % of all choices is `skew`.
// kInvalidArgument: a skew that is not possible, with the range that is.
// Requires 0 < num_used < num_experts.
Result<std::vector<double>> SolveExpertBiases(size_t num_experts,
                                              size_t num_used, double skew);

// P(a token chooses the expert) [E], counted; num_used where all biases are 0.
std::vector<double> ExpertShares(const std::vector<double>& biases,
                                 size_t num_used);

// The share of a token's experts that the token before had, when each Z has
// this correlation from token to token.
double ExpertLocality(const std::vector<double>& biases, size_t num_used,
                      double correlation);

// The correlation, 0 to kMaxCorrelation, that gives `locality`.
// kInvalidArgument: one that is not possible, with the range that is.
Result<double> SolveExpertCorrelation(const std::vector<double>& biases,
                                      size_t num_used, double locality);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_EXPERTS_H_
