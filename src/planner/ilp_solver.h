// Integer programs of PowerInfer's form, in numbers alone, and who solves them.
#ifndef THERMOCLINE_PLANNER_ILP_SOLVER_H_
#define THERMOCLINE_PLANNER_ILP_SOLVER_H_

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace thermocline::planner {

struct IlpGroup {
  std::vector<uint32_t> items;
  double impact = 0.0;
  double bytes = 0.0;
};

struct IlpLayer {
  std::vector<IlpGroup> groups;
  uint32_t least = 0;  // items, if there are any
  double bytes = 0.0;  // besides, if there are any
};

// Maximise the sum of impacts of the groups that are there: their bytes within
// the capacity, of each layer none or at least its least number of items.
struct IlpModel {
  std::vector<IlpLayer> layers;
  double capacity = 0.0;
};

struct IlpAnswer {
  std::vector<std::vector<bool>> is_there;  // as layers and groups
  double impact = 0.0;
  double bound = 0.0;       // no answer has more
  bool is_optimal = false;  // proved, but for the gap
};

bool HasIlpSolver();

// The best answer within `max_gap` of its impact, or what was found in time;
// nothing there is an answer too. kUnsupported: built without CBC, or it is not
// here; kResourceExhausted: CBC's answer does not fit.
Result<IlpAnswer> SolveIlpModel(const IlpModel& model, double max_seconds,
                                double max_gap);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_ILP_SOLVER_H_
