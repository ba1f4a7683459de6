// DynamicInfer's policy: who is used now, and who is used often.
#ifndef THERMOCLINE_RESIDENCY_MACRO_MICRO_POLICY_H_
#define THERMOCLINE_RESIDENCY_MACRO_MICRO_POLICY_H_

#include <memory>
#include <vector>

#include "residency/policy.h"

namespace thermocline::residency {

// DynamicInfer 4.3, E.3: the importance of a neuron is v = a + lambda f, where
// a is 1 if the pass uses it and f is how often passes have used it. Neurons of
// f >= phi_high are pinned: they come first, and leave for nobody but one of
// their like. Others come in the order of v as long as the overlap window lasts
// (`most` of Propose; MovesInWindow of move_cost.h is its size), and for each
// the one of lowest v leaves.
//
// Where the paper is silent:
// - the values of lambda and phi_high: they are chosen here;
// - what f is at first: the profile's frequencies, if there are any, count as
//   `prior` passes before the first one;
// - more pinned neurons than there is room for: the most frequent stay;
// - a neuron of a group: a is the share of the group's members used, f the mean
//   of these shares, so that single neurons are as in the paper;
// - a miss that was read anyway comes by the same rule;
// - equal importance changes nobody's place.
struct MacroMicroOptions {
  double lambda = 0.5;  // >= 0
  double phi = 0.5;     // phi_high; above 1 nobody is pinned
  double prior = 64.0;  // passes, >= 0
};

std::unique_ptr<Policy> MakeMacroMicro(const std::vector<LayerExtent>& layers,
                                       const MacroMicroOptions& options);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_MACRO_MICRO_POLICY_H_
