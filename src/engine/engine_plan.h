// Options checked against a model and made definite: what an engine allocates
// before it does.
#ifndef THERMOCLINE_ENGINE_ENGINE_PLAN_H_
#define THERMOCLINE_ENGINE_ENGINE_PLAN_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/layer_plan.h"
#include "engine/scratch.h"
#include "model/config.h"

namespace thermocline::engine {

struct EnginePlan {
  FfnChoice ffn;
  std::vector<LayerPlan> layers;
  ScratchShape scratch;
  uint64_t scratch_bytes = 0;  // activations of one batch, per-thread scratch
  uint64_t sign_bytes = 0;     // of weights, for PredictorChoice::kTrainingFree
};

// kInvalidArgument: a context < 1 or beyond learned positions, max_rows < 1, a
// mode or predictor that the model is not for (ffn/ffn_choice.h);
// kResourceExhausted when a product overflows.
Result<EnginePlan> PlanEngine(const model::Config& config,
                              const EngineOptions& options, int num_threads);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ENGINE_PLAN_H_
