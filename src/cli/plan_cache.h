// Plans that were made at start, kept for the next one.
#ifndef THERMOCLINE_CLI_PLAN_CACHE_H_
#define THERMOCLINE_CLI_PLAN_CACHE_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "cli/device_flags.h"
#include "cli/planned_placement.h"
#include "engine/device/planner.h"
#include "engine/runtime.h"

namespace thermocline::cli {

// THERMOCLINE_PLANS, or thermocline/plans in the user's folder for caches. None
// if that variable is "none" or there is no such folder.
std::optional<std::string> PlanFolder();

// The plan's file in a folder: another for each model, profile in its file,
// machine, budget and all else that a plan depends on. Cost: reads the profile.
std::string PlanPathIn(const std::string& folder, const PlanMachine& machine,
                       const engine::PlacementRequest& request);

// As the kept plan says, or else as PlaceBy(kNative), which is then kept. A
// kept plan that is of something else or damaged is made anew, and a folder
// that cannot be written only warns. Inputs with counts of another file are
// neither looked up nor kept. `folder`: none: nothing is kept.
PlaceFunction PlaceKept(PlanInputs inputs, std::optional<std::string> folder);

// The session's parts lie where the flags' plan says, or a kept one; where no
// device is wanted nothing changes. Errors of UsePlan and PlanInputsOf.
Status PlaceFor(const DeviceFlags& flags, engine::SessionOptions& session);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PLAN_CACHE_H_
