// The part of a layer's predictors that speaks of one expert: neuron i of
// expert e is neuron e * F + i of the layer. What is computed from the input
// alone is the same for all of them.
#ifndef THERMOCLINE_PREDICTOR_EXPERT_PARTS_H_
#define THERMOCLINE_PREDICTOR_EXPERT_PARTS_H_

#include <cstddef>

#include "model/model.h"

namespace thermocline::predictor {

// Views into those of the layer, of neurons [first, first + count). What is
// absent stays so.
model::PredictorWeights PartOf(const model::PredictorWeights& layer,
                               size_t first, size_t count);
model::FreePredictorWeights PartOf(const model::FreePredictorWeights& layer,
                                   size_t first, size_t count);

}  // namespace thermocline::predictor

#endif  // THERMOCLINE_PREDICTOR_EXPERT_PARTS_H_
