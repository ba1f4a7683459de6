// The placement with the least predicted time, nearly: what the budget is worth
// per byte, and everything that is worth more.
#ifndef THERMOCLINE_PLANNER_NATIVE_H_
#define THERMOCLINE_PLANNER_NATIVE_H_

#include "base/status.h"
#include "planner/problem.h"

namespace thermocline::planner {

struct Solution {
  Placement placement;
  double seconds = 0.0;  // predicted, per token
  // No placement that keeps to budget and rules is predicted to take less.
  double bound_seconds = 0.0;
  double wall_seconds = 0.0;  // that solving took

  // (seconds - bound) / seconds, 0 to 1.
  double gap() const;
};

// Minimises PredictCost().seconds of Scheme::kSparse: bisects on the price of
// the device's memory (Lagrange), at which each layer's best number of hottest
// neurons and each part's place are separate questions, then spends what is
// left. Deterministic. Cost: about 0.1 s for 80 layers of 28672 neurons.
// kResourceExhausted: what the rules want on the device does not fit, with what
// it takes.
Result<Solution> SolveNative(const Problem& problem);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_NATIVE_H_
