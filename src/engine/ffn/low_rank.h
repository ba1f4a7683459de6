// The trained predictor of PowerInfer, KAIROX and our own files: two thin
// matrices.
#ifndef THERMOCLINE_ENGINE_FFN_LOW_RANK_H_
#define THERMOCLINE_ENGINE_FFN_LOW_RANK_H_

#include <cstddef>
#include <memory>

#include "engine/ffn/selector.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/model.h"

namespace thermocline::engine {

// Chooses the neurons whose score is not below the threshold
// (predictor/threshold.h), with
//   score = down relu(up x[t] + up_bias) + down_bias
// x is what the predictor was trained on (model::PredictorKind). Requires that
// the weights are there and R <= F. Everything that it is given, and
// what the weights view, outlives it.
// Two parallel regions for a token; for a batch as MultiplyAll says.
// Cost: reads both matrices once: for R of the published models a sixth to a
// fifth of the FFN's own weights.
// Source: PowerInfer 5.1, KAIROX 5.1.
std::unique_ptr<Selector> MakeLowRankSelector(
    const model::PredictorWeights& weights, float threshold, size_t layer_idx,
    const Compute* compute, const Scratch* scratch);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_LOW_RANK_H_
