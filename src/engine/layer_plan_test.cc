#include "engine/layer_plan.h"

#include <gtest/gtest.h>

namespace thermocline::engine {
namespace {

TEST(LayerPlan, PromptsAreDenseOrAsTheRest) {
  model::Config config;
  config.num_layers = 3;
  for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact, FfnMode::kFast,
                             FfnMode::kThreshold}) {
    for (const bool dense_prompts : {false, true}) {
      const auto layers = PlanLayers(config, {.mode = mode}, dense_prompts);
      ASSERT_EQ(layers.size(), 3u);
      for (const LayerPlan& layer : layers) {
        EXPECT_EQ(layer.of(Phase::kGenerate), mode);
        EXPECT_EQ(layer.of(Phase::kPrompt),
                  dense_prompts ? FfnMode::kDense : mode);
      }
      EXPECT_EQ(IsSparse(layers), mode != FfnMode::kDense);
    }
  }
}

}  // namespace
}  // namespace thermocline::engine
