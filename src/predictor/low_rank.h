// The trained predictor of PowerInfer, KAIROX and our own files: two thin
// matrices.
#ifndef THERMOCLINE_PREDICTOR_LOW_RANK_H_
#define THERMOCLINE_PREDICTOR_LOW_RANK_H_

#include <memory>

#include "compute/matmul.h"
#include "model/model.h"
#include "predictor/selector.h"

namespace thermocline::predictor {

// Chooses the neurons whose score is not below the threshold
// (predictor/threshold.h), with
//   score = down relu(up x[t] + up_bias) + down_bias
// x is what the predictor was trained on (model::PredictorConfig). Requires
// that the weights are there and R <= scratch.hidden.width. Everything that it
// is given, and what the weights view, outlives it. Two parallel regions for a
// row; for several as MultiplyAll says. Cost: reads both matrices once: for R
// of the published models a sixth to a fifth of the FFN's own weights. Source:
// PowerInfer 5.1, KAIROX 5.1.
std::unique_ptr<Selector> MakeLowRankSelector(
    const model::PredictorWeights& weights, float threshold,
    const compute::Compute* compute, const SelectorScratch* scratch);

}  // namespace thermocline::predictor

#endif  // THERMOCLINE_PREDICTOR_LOW_RANK_H_
