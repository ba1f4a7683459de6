// From a predictor's scores to the neurons that are worth computing.
#ifndef THERMOCLINE_PREDICTOR_THRESHOLD_H_
#define THERMOCLINE_PREDICTOR_THRESHOLD_H_

#include <span>

#include "neuron/neuron_set.h"

namespace thermocline::predictor {

// Makes `set` the neurons i with !(scores[i] < threshold): a score that is not
// a number keeps its neuron. scores [set.num_neurons].
// Cost: one pass; about a nanosecond per neuron.
// Source: PowerInfer 5.1 (threshold 0 on the raw score); KAIROX 5.1 takes
// sigmoid(score) >= 0.5, which is the same.
void SelectAtLeast(std::span<const float> scores, float threshold,
                   const neuron::NeuronSet& set);

}  // namespace thermocline::predictor

#endif  // THERMOCLINE_PREDICTOR_THRESHOLD_H_
