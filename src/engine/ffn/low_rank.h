// The trained predictor of PowerInfer and KAIROX: two thin matrices.
#ifndef THERMOCLINE_ENGINE_FFN_LOW_RANK_H_
#define THERMOCLINE_ENGINE_FFN_LOW_RANK_H_

#include <cstddef>

#include "engine/matmul.h"
#include "engine/rows.h"
#include "engine/scratch.h"
#include "model/model.h"

namespace thermocline::engine {

// Makes scratch.sparse.candidates(layer_idx, t) the neurons whose score is not
// below the threshold (predictor/threshold.h), with
//   score = down relu(up x[t] + up_bias) + down_bias
// x [T, D] is what the predictor was trained on (model::PredictorKind).
// Overwrites scratch.up and scratch.gate. Requires that the weights are there
// and R <= F. Allocates nothing.
// Cost: reads both matrices once: for R of the published models a sixth to a
// fifth of the FFN's own weights.
// Source: PowerInfer 5.1, KAIROX 5.1.
void PredictCandidates(const Compute& compute, const Scratch& scratch,
                       const model::PredictorWeights& weights, float threshold,
                       const Rows& x, size_t num_tokens, size_t layer_idx);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_LOW_RANK_H_
