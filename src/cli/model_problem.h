// From a model and a device to the planner's problem, and back.
#ifndef THERMOCLINE_CLI_MODEL_PROBLEM_H_
#define THERMOCLINE_CLI_MODEL_PROBLEM_H_

#include "base/status.h"
#include "cli/activity.h"
#include "cli/planned_placement.h"
#include "device/sim/machine.h"
#include "engine/device/listed_placement.h"
#include "engine/device/planner.h"
#include "planner/problem.h"

namespace thermocline::cli {

// What the rates that a machine states mean for a plan.
planner::Hardware HardwareOf(const device::Machine& machine,
                             const model::Config& config);

// Of generated tokens in the middle of the context. Where nobody has
// counted, all neurons are alike, and experts as often used as the model uses
// them. Activations are taken off request.vram as if all
// parts were on the device. kResourceExhausted: no part fits beside them, with
// the least that holds one.
// Errors of DemandsOfTensors.
Result<planner::Problem> ProblemOf(const engine::PlacementRequest& request,
                                   const planner::Hardware& hardware,
                                   const Activity& activity);

engine::ListedParts PartsOf(const planner::Placement& placement);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_MODEL_PROBLEM_H_
