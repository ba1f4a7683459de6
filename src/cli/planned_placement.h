// Sessions whose device is filled as a plan says.
#ifndef THERMOCLINE_CLI_PLANNED_PLACEMENT_H_
#define THERMOCLINE_CLI_PLANNED_PLACEMENT_H_

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/device_flags.h"
#include "engine/device/placement.h"
#include "engine/device/planner.h"
#include "planner/cost.h"
#include "planner/named.h"
#include "planner/plan_file.h"
#include "planner/problem.h"

namespace thermocline::cli {

using PlaceFunction =
    std::function<Result<engine::Placement>(const engine::PlacementRequest&)>;

struct PlanMade {
  planner::Problem problem;
  planner::NamedPlacement named;
  planner::Cost cost;  // predicted
};

// What plans are made for: a simulated machine's stated rates, a card's
// measured ones (which takes seconds, when they are asked for).
struct PlanMachine {
  std::string name;      // how a plan calls it
  std::string identity;  // equal where a plan may be used again
  std::function<Result<planner::Hardware>(const model::Config& config)>
      hardware;
};
Result<PlanMachine> PlanMachineOf(const DeviceFlags& flags);

struct PlanInputs {
  PlanMachine machine;
  // Counts of a profile of the model, instead of those in its file.
  std::optional<std::string> counts_path;
  // Where more is known of a predictor than what predictors usually are.
  std::optional<double> candidates_per_fired;
};

// Of a device that the flags want.
Result<PlanInputs> PlanInputsOf(const DeviceFlags& flags);

// Solves, has the result checked, and tells `made` of it; null: nobody. Errors
// of ReadActivity, ProblemOf, planner::PlaceByMethod and PlaceListed, and of
// engine::PlanPlacement where the method heeds rules. kUnsupported: a method
// for which there is no engine.
PlaceFunction PlaceBy(planner::Method method, PlanInputs inputs,
                      PlanMade* made);

// As the plan in a file says. Errors of planner::ReadPlan, CheckPlanFor and
// PlaceListed; kInvalidArgument: a plan for another mode.
PlaceFunction PlaceFromFile(std::string path);

planner::PlanFile PlanFileOf(const PlanMade& made,
                             const engine::PlacementRequest& request,
                             const std::string& machine);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PLANNED_PLACEMENT_H_
