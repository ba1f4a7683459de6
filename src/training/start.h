// Where training begins: the best low-rank image of the gate matrix on the
// inputs that were seen. What opens a gate is the sign of gate_i x + bias_i, so
// this start is already a predictor, and training only has to mend it.
#ifndef THERMOCLINE_TRAINING_START_H_
#define THERMOCLINE_TRAINING_START_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor_view.h"
#include "training/gemm.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Of samples' inputs, scaled as Samples say.
struct InputMoments {
  std::vector<float> mean;        // [D]
  std::vector<float> covariance;  // [D, D]
};
InputMoments ComputeMoments(const Gemm& gemm, const Samples& samples);

// The number that makes the inputs' mean square 1. 1 if they are all 0.
float UnitScale(const Samples& samples);

// The matrix whose rows open neurons, as floats, and their biases.
struct GateRows {
  std::vector<float> rows;    // [N, D]
  std::vector<float> biases;  // [N]
};
// From `gates`, one [F, D] or one of each expert, and `bias` [F] F32 (or empty)
// of each of them, for inputs that Samples scale: rows are divided by
// input_scale.
GateRows ReadGate(const Gemm& gemm, std::span<const TensorView> gates,
                  const TensorView& bias, float input_scale);

// The rows that open a layer's neurons, for the inputs of an earlier layer: the
// layer's own input is guessed from them, by the linear map with the least
// square error over the samples (of the same tokens; scaled likewise).
GateRows LookAhead(const Gemm& gemm, const GateRows& gate,
                   const Samples& earlier, const Samples& own);

// What a linear map of rank R through the inputs' main directions keeps of the
// gate: gate_i x + bias_i is about deviation_i (down_i (up x) + bias_i).
struct GateImage {
  size_t rank = 0;
  std::vector<float> up;         // [R, D]; each row's values have variance 1
  std::vector<float> down;       // [F, R]
  std::vector<float> bias;       // [F]
  std::vector<float> deviation;  // [F] of gate_i x over the samples; > 0
};

// The image of rank `rank` <= min(D, F) with the least mean square error over
// the samples, of rows scaled to variance 1: the main directions of
// gate * covariance * gate^T, by subspace iteration (Halko, Martinsson and
// Tropp 2011) from a random start. Directions are ordered, most important
// first. Rows of `up` that a degenerate input gives no variance are 0. Cost:
// some 10 * 4 F D R operations.
GateImage FitImage(const Gemm& gemm, const GateRows& gate,
                   const InputMoments& moments, size_t rank, uint64_t seed);

// A predictor that computes the first `rank` directions of the image, as
// chances: scores are scaled so that sigmoid(score) is about P(gate opens).
// The ReLU is lifted out of the way, by a bias that leaves most inputs positive
// and that down_bias takes back; training bends it as it likes.
LowRank StartFrom(const GateImage& image, const InputMoments& moments,
                  size_t rank);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_START_H_
