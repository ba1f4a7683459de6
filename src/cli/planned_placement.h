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
#include "engine/runtime.h"
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

// What plans are made for.
struct PlanMachine {
  std::string name;      // how a plan calls it
  std::string identity;  // equal where a plan may be used again
  // A simulated machine's stated rates, a card's measured ones: they are
  // measured, which takes seconds, when they are first asked for.
  std::function<Result<planner::Hardware>(const model::Config& config)>
      hardware;
};
// Errors of OpenDevice. Nothing is measured.
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
// engine::PlanPlacement where the method heeds rules. The session is to be
// one that UseModeOf has seen.
PlaceFunction PlaceBy(planner::Method method, PlanInputs inputs,
                      PlanMade* made);

// The same by the split file, PowerInfer's, that the model was opened with.
// Besides: errors of planner::PlaceHotNeurons. Requires that there is one.
PlaceFunction PlaceBySplit(PlanInputs inputs, PlanMade* made);

// The session's placement is that of flags.plan_path, and its budget the plan's
// unless the flags have one. Errors of planner::ReadPlan and PlanMachineOf;
// kInvalidArgument: a plan for another machine. When it is placed, errors of
// planner::CheckPlanFor and PlaceListed; kInvalidArgument: a plan for another
// budget or mode. Requires a plan_path.
Status UsePlan(const DeviceFlags& flags, engine::SessionOptions& session);

// Those methods that compute all neurons have them computed so, whatever the
// session's mode.
void UseModeOf(planner::Method method, engine::SessionOptions& session);

planner::PlanFile PlanFileOf(const PlanMade& made,
                             const engine::PlacementRequest& request,
                             const std::string& machine);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PLANNED_PLACEMENT_H_
