#include "engine/layer_plan.h"

#include <algorithm>

namespace thermocline::engine {

std::vector<LayerPlan> PlanLayers(const model::Config& config,
                                  const FfnChoice& choice, bool dense_prompts) {
  const LayerPlan plan = {
      {dense_prompts ? FfnMode::kDense : choice.mode, choice.mode}};
  return std::vector<LayerPlan>(config.num_layers, plan);
}

bool IsSparse(const std::vector<LayerPlan>& layers) {
  return std::ranges::any_of(layers, [](const LayerPlan& layer) {
    return std::ranges::any_of(
        layer.ffn, [](FfnMode mode) { return mode != FfnMode::kDense; });
  });
}

}  // namespace thermocline::engine
