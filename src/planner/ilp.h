// PowerInfer's placement (6.3): the most activations on the device.
#ifndef THERMOCLINE_PLANNER_ILP_H_
#define THERMOCLINE_PLANNER_ILP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/problem.h"

namespace thermocline::planner {

struct IlpOptions {
  double time_limit_seconds = 30.0;
  size_t group_size = 64;  // neurons of similar frequency, placed together
  double max_gap = 1e-4;   // of the impact, at which it is good enough
};

struct IlpSolution {
  Placement placement;
  double impact = 0.0;        // of what is there: sum of frequencies
  double impact_bound = 0.0;  // no placement has more
  bool is_optimal = false;    // proved, of groups and but for the gap
  double wall_seconds = 0.0;
};

// Whether SolveIlp can: built with CBC.
bool HasIlp();

// C_l: the fewest neurons (or experts) of a layer for which computing all of
// each on the device and a round trip take no longer than the host does
// (inequality 4, with 5). 0: the layer has none; kNever: no number does.
inline constexpr uint32_t kNever = ~uint32_t{0};
std::vector<uint32_t> LeastThere(const Problem& problem);

// Parts that lie somewhere whole (attention, predictors, matrices, head) come
// first, best bytes read per byte there first; then the most impact that fits
// what is left, in groups, of each layer none or at least LeastThere. An expert
// is a group of its own. kUnsupported: built without CBC. kResourceExhausted:
// as SolveNative's. Out of time there may be nothing placed.
Result<IlpSolution> SolveIlp(const Problem& problem, const IlpOptions& options);

// The same without the least number per layer: the hottest neurons of all
// layers that fit. kResourceExhausted as SolveNative's.
Result<Placement> PlaceByFrequency(const Problem& problem);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_ILP_H_
