// KAIROX's policy: temporal activation momentum, with feedback.
#ifndef THERMOCLINE_RESIDENCY_MOMENTUM_POLICY_H_
#define THERMOCLINE_RESIDENCY_MOMENTUM_POLICY_H_

#include <memory>
#include <vector>

#include "residency/policy.h"

namespace thermocline::residency {

// KAIROX 6, 7, Algorithm 1, as the paper writes it and in floats, of each layer
// by itself. The score of a group is S = lambda S + (1 - lambda) A, where A is
// the share of its members that the pass uses. Those above tau_load = (1 -
// lambda) + epsilon are candidates, and the best `capacity` of them are to be
// resident: who of them is missing comes. Before that, if the last pass waited
// for moves, lambda grows by (1 + alpha) up to max; if for misses, it falls by
// (1 - alpha) down to min.
//
// Where the paper is silent:
// - the values of alpha, epsilon, min and max: they are chosen here; lambda
//   begins at its 0.5;
// - who is to leave stays until his room is needed: until then he costs
//   nothing, and the lowest score leaves first;
// - who is in use does not leave, so that a pass never loses what it computes
//   with;
// - scores begin at 0, whoever is resident first;
// - with lambda = 0 nothing exceeds 1 + epsilon, and nobody would ever come:
//   then any activity makes a candidate (Neuralink in the paper's tests);
// - with `tau` off all with a score are candidates: at groups of 16 the
//   threshold keeps out who is steadily used by a quarter;
// - a miss that was read anyway is let in where there is room, else by the same
//   rule.
struct MomentumOptions {
  double lambda = 0.5;    // in [0, 1); with `adapts` in [min, max] too
  double alpha = 0.05;    // in [0, 1)
  double epsilon = 0.01;  // >= 0
  double min = 0.05;      // of lambda
  double max = 0.95;
  bool has_tau = true;
  bool adapts = true;
};

std::unique_ptr<Policy> MakeMomentum(const std::vector<LayerExtent>& layers,
                                     const MomentumOptions& options);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_MOMENTUM_POLICY_H_
