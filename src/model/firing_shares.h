// How often neurons and experts are used, by the profile in a model's file:
// what residency policies begin with.
#ifndef THERMOCLINE_MODEL_FIRING_SHARES_H_
#define THERMOCLINE_MODEL_FIRING_SHARES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "model/model.h"

namespace thermocline::model {

// [N] the share of the profile's tokens for which each neuron of a layer fired;
// of the greatest count where the file does not say how many. Nothing where it
// has no profile, or that was left out of memory.
std::vector<float> FiringShares(const Model& model, size_t layer_idx);

// [E] about how often a token uses each expert of a mixture: they share its
// num_experts_used as their neurons fire, each at most always. Nothing
// likewise.
std::vector<float> ExpertShares(const Model& model, size_t layer_idx);

// The same of a layer's neurons, [E * width] expert by expert, where a token
// uses so many. Requires E > 0.
std::vector<float> SharesOfExperts(std::span<const float> neurons,
                                   size_t num_experts, size_t num_used);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_FIRING_SHARES_H_
