// Which neurons each layer computes, phase by phase.
#ifndef THERMOCLINE_ENGINE_LAYER_PLAN_H_
#define THERMOCLINE_ENGINE_LAYER_PLAN_H_

#include <array>
#include <vector>

#include "engine/batch.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/ffn/ffn_mode.h"
#include "model/config.h"

namespace thermocline::engine {

struct LayerPlan {
  std::array<FfnMode, kNumPhases> ffn;  // not kAuto

  FfnMode of(Phase phase) const { return ffn[static_cast<size_t>(phase)]; }
};

// dense_prompts: prompts compute all neurons, whatever is chosen for what is
// generated.
std::vector<LayerPlan> PlanLayers(const model::Config& config,
                                  const FfnChoice& choice, bool dense_prompts);

// Whether some layer leaves out neurons in some phase.
bool IsSparse(const std::vector<LayerPlan>& layers);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_LAYER_PLAN_H_
