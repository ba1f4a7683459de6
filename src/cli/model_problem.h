// From a model and a device to the planner's problem, and back.
#ifndef THERMOCLINE_CLI_MODEL_PROBLEM_H_
#define THERMOCLINE_CLI_MODEL_PROBLEM_H_

#include <vector>

#include "base/status.h"
#include "cli/planned_placement.h"
#include "device/sim/machine.h"
#include "engine/device/listed_placement.h"
#include "engine/device/planner.h"
#include "planner/problem.h"

namespace thermocline::cli {

// What the rates that a machine states mean for a plan.
planner::Hardware HardwareOf(const device::Machine& machine,
                             const model::Config& config);

// Whether the model's file says how often neurons fire.
bool HasProfile(const model::Model& model);

// How often neurons fire, and how often they are tested for it.
struct Activity {
  // Of each layer, or of each expert's, the share of tokens; or none: nobody
  // has counted.
  std::vector<std::vector<float>> frequencies;
  double candidates_per_fired = 1.6;  // of a trained predictor
};

// From inputs.counts_path, else from the model's own file. kInvalidArgument: a
// profile in which no neuron fired, or of another model; errors of
// model::ReadProfile but for kNotFound of the model's own.
Result<Activity> ReadActivity(const model::Model& model,
                              const PlanInputs& inputs);

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
