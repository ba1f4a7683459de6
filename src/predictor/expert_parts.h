// The part of a layer's predictors that speaks of one expert: neuron i of
// expert e is neuron e * F + i of the layer. What is computed from the input
// alone is the same for all of them; each expert in use computes it again, from
// the cache (some 12 % of the predictor's bytes for mixtral). A predictor for
// each expert would have a fraction of the samples to learn from.
#ifndef THERMOCLINE_PREDICTOR_EXPERT_PARTS_H_
#define THERMOCLINE_PREDICTOR_EXPERT_PARTS_H_

#include <cstddef>

#include "model/model.h"

namespace thermocline::predictor {

// Views into those of the layer, of neurons [first, first + count). What is
// absent stays so.
model::PredictorWeights PartOf(const model::PredictorWeights& layer,
                               size_t first, size_t count);
model::TrainingFreeWeights PartOf(const model::TrainingFreeWeights& layer,
                                  size_t first, size_t count);

}  // namespace thermocline::predictor

#endif  // THERMOCLINE_PREDICTOR_EXPERT_PARTS_H_
