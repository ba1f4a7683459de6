// Whether a placement is what it says. Shares nothing with what made it but the
// problem.
#ifndef THERMOCLINE_PLANNER_CHECK_H_
#define THERMOCLINE_PLANNER_CHECK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/problem.h"

namespace thermocline::planner {

// What is said of a placement; what is absent is not checked.
struct Claims {
  std::optional<double> seconds;         // per token, to one part in 1e9
  std::optional<uint64_t> device_bytes;  // exactly
  std::vector<uint32_t> least_there;     // [L] each layer none or as many
  bool keeps_rules = true;
};

// kInvalidArgument: rates or frequencies out of range, a layer with two FFNs,
// sums that do not fit 64 bits; the first one named.
Status CheckProblem(const Problem& problem);

// All of: as many layers, indices ascending and existing, parts that exist and
// may be there, whole layers where others' weights cross the link, rules kept,
// the budget kept with bytes added up anew, and the
// claims. Names the first thing wrong; kInvalidArgument, for the budget
// kResourceExhausted. Requires a problem that CheckProblem passed.
Status CheckPlacement(const Problem& problem, const Placement& placement,
                      const Claims& claims = {});

// What a token costs with a placement, reckoned by other code than PredictCost,
// which says what is reckoned (cost.h). Requires indices that exist.
double AuditSeconds(const Problem& problem, const Placement& placement);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_CHECK_H_
