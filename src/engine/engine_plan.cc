#include "engine/engine_plan.h"

#include <algorithm>

#include "base/remedy.h"
#include "predictor/training_free.h"

namespace thermocline::engine {

Result<EnginePlan> PlanEngine(const model::Config& config,
                              const EngineOptions& options, int num_threads) {
  if (options.max_rows < 1) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kBatch},
                "a batch of {} tokens: there is at least one",
                options.max_rows);
  }
  if (options.context < 1) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kContext},
                "a context of {} positions: there is at least one",
                options.context);
  }
  if (config.num_positions > 0 && options.context > config.num_positions) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kContext},
                "a context of {} positions: this model learned {} and has no "
                "others",
                options.context, config.num_positions);
  }
  EnginePlan plan;
  TC_ASSIGN_OR_RETURN(plan.ffn,
                      ChooseFfn(config, options.ffn, options.predictor));
  plan.layers = PlanLayers(config, plan.ffn, options.dense_prompts);
  plan.scratch = {.batch = options.max_rows,
                  .context = options.context,
                  .num_threads = num_threads,
                  .isa = options.isa,
                  .is_sparse = IsSparse(plan.layers),
                  .is_observed = static_cast<bool>(options.observer)};
  TC_ASSIGN_OR_RETURN(plan.scratch_bytes, ScratchBytes(config, plan.scratch));
  if (plan.ffn.own_signs) {
    plan.sign_bytes = predictor::OwnSigns::NumBytes(config);
  }
  return plan;
}

}  // namespace thermocline::engine
