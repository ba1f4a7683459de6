// How a synthetic model's first attention mixes the last tokens, so that what
// the FFNs read changes as slowly from token to token as is wanted.
#ifndef THERMOCLINE_SYNTH_WINDOW_H_
#define THERMOCLINE_SYNTH_WINDOW_H_

#include <cstddef>
#include <vector>

namespace thermocline::synth {

// Queries and keys are the same at every position but for a rotation, so that
// the score of a token `d` back is kScorePeak times the mean of
// cos(frequency * d) over some frequencies: a bell around the newest token.
inline constexpr double kScorePeak = 24.0;

// The stream behind the first attention is
//   token_gain * e_t + window_gain * sum over d of weight_d * e_(t-d),
// with the weights that the softmax of those scores gives. For independent e of
// variance 1 it has variance 1, and the wanted correlation with itself a token
// later.
struct Window {
  size_t first_frequency = 0;  // of those offered, which descend
  size_t num_frequencies = 0;
  double token_gain = 1.0;
  double window_gain = 0.0;
  double newest = 1.0;  // how much of e_t is in it: the covariance of the two
};

// The narrowest window that reaches `correlation`, 0 to kMaxCorrelation.
// `frequencies` are radians per position, descending, evenly spaced in their
// logarithms and at least 2: those of RoPE, whose pairs turn with them.
// The result is the best there is if no window is wide enough.
Window SolveWindow(const std::vector<double>& frequencies, double correlation);

// The softmax over d = 0, 1, ...: [kWindowPositions].
inline constexpr size_t kWindowPositions = 1024;
std::vector<double> WindowWeights(const std::vector<double>& frequencies,
                                  size_t first, size_t count);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_WINDOW_H_
