// Policies and bounds side by side, at several capacities, over one reading of
// what was used: what `simulate` prints, and what a planner asks for the misses
// at a capacity.
#ifndef THERMOCLINE_RESIDENCY_COMPARE_H_
#define THERMOCLINE_RESIDENCY_COMPARE_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "residency/policy.h"
#include "residency/replay.h"

namespace thermocline::residency {

// "oracle-static", "belady": bounds.h; of computed misses "belady" is
// MovingOracle, an estimate.
std::span<const PolicyInfo> Bounds();

struct Case {
  std::string name;    // a policy's spec, or a bound's name
  double share = 0.0;  // capacity / units, of each layer; to the nearest unit
  std::vector<uint32_t> capacities;  // [L] instead of a share; or none
};

// The next token's sets, layer by layer, and what it is to policies; nothing:
// there is none left. Bounds know of no tokens but those that are counted.
using NextToken = std::function<Result<std::optional<Step>>(
    std::vector<std::vector<uint32_t>>& sets)>;

// What each case did, all under the same options. The capacities of `layers`
// are not read.
// The errors of `next` and of MakePolicy; kInvalidArgument: a share that is not
// in [0, 1], or not as many capacities as layers.
// Cost: one reading; if there is a bound, all of it is kept in memory.
Result<std::vector<Replay>> ReplayCases(const std::vector<LayerExtent>& layers,
                                        const std::vector<Case>& cases,
                                        const NextToken& next,
                                        const ReplayOptions& options = {});

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_COMPARE_H_
