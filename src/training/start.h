// Where training begins: the best low-rank image of the gate matrix on the
// inputs that were seen. What opens a gate is the sign of gate_i x + bias_i, so
// this start is already a predictor, and training only has to mend it.
#ifndef THERMOCLINE_TRAINING_START_H_
#define THERMOCLINE_TRAINING_START_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/gate_rows.h"
#include "training/gemm.h"
#include "training/input_moments.h"
#include "training/low_rank.h"

namespace thermocline::training {

// What a linear map of rank R through the inputs' main directions keeps of the
// gate: gate_i x + bias_i is about deviation_i (down_i (up x) + bias_i).
struct GateImage {
  size_t rank = 0;
  std::vector<float> up;         // [R, D]; each row's values have variance 1
  std::vector<float> down;       // [N, R]
  std::vector<float> bias;       // [N]
  std::vector<float> deviation;  // [N] of gate_i x over the samples; > 0
};

// The image of rank `rank` <= min(D, F) with the least mean square error over
// the samples, of rows scaled to variance 1: the main directions of
// gate * covariance * gate^T, by subspace iteration (Halko, Martinsson and
// Tropp 2011) from a random start. Directions are ordered, most important
// first. Rows of `up` that a degenerate input gives no variance are 0. Of E
// experts F of the N rows, drawn evenly, settle the directions. Memory: the
// image, and twice the gate's rows; of a mixture four times one expert's. Cost:
// some 10 * 4 F D R operations, and reading the gate twice.
GateImage FitImage(const Gemm& gemm, const Gate& gate, size_t num_neurons,
                   const InputMoments& moments, size_t rank, uint64_t seed);

// A predictor that computes the first `rank` directions of the image, as
// chances: scores are scaled so that sigmoid(score) is about P(gate opens).
// The ReLU is lifted out of the way, by a bias that leaves most inputs positive
// and that down_bias takes back; training bends it as it likes.
LowRank StartFrom(const GateImage& image, const InputMoments& moments,
                  size_t rank);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_START_H_
