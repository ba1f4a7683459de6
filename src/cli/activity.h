// How busy a model's neurons are, as plans want it.
#ifndef THERMOCLINE_CLI_ACTIVITY_H_
#define THERMOCLINE_CLI_ACTIVITY_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/planned_placement.h"
#include "model/model.h"

namespace thermocline::cli {

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

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_ACTIVITY_H_
