#include "engine/engine_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/remedy.h"

namespace thermocline::engine {
namespace {

model::Config ReluModel() {
  model::Config config;
  config.num_layers = 4;
  config.width = 256;
  config.ropes = {{.width = 32}};
  config.layers.assign(
      4,
      model::LayerSpec{.attention = {.num_heads = 8,
                                     .num_kv_heads = 8,
                                     .key_width = 32,
                                     .value_width = 32,
                                     .rope = 0},
                       .ffn = {.activation = Activation::kRelu, .width = 512}});
  return config;
}

TEST(EnginePlan, FastNeedsPredictorsAndRoomForWhatTheyChoose) {
  model::Config config = ReluModel();
  const auto refused =
      PlanEngine(config, {.context = 64, .ffn = FfnMode::kFast}, 2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().advice.remedy, Remedy::kTrainingFreePredictor);
  config.predictor = {.kind = model::PredictorKind::kPowerInfer,
                      .is_mask = true};
  const auto automatic = PlanEngine(config, {.context = 64}, 2);
  const auto dense =
      PlanEngine(config, {.context = 64, .ffn = FfnMode::kDense}, 2);
  ASSERT_TRUE(automatic.has_value() && dense.has_value());
  EXPECT_EQ(automatic->ffn.mode, FfnMode::kFast);
  EXPECT_EQ(automatic->layers.size(), 4u);
  EXPECT_TRUE(automatic->scratch.is_sparse);
  EXPECT_FALSE(dense->scratch.is_sparse);
  EXPECT_GT(automatic->scratch_bytes, dense->scratch_bytes);
}

TEST(EnginePlan, RefusesWhatTheModelCannotDo) {
  model::Config config = ReluModel();
  config.num_positions = 64;
  EXPECT_TRUE(PlanEngine(config, {.context = 64}, 1).has_value());
  for (const EngineOptions& options :
       {EngineOptions{.context = 65}, EngineOptions{.context = 0},
        EngineOptions{.context = 64, .max_rows = 0}}) {
    const auto plan = PlanEngine(config, options, 1);
    ASSERT_FALSE(plan.has_value());
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace thermocline::engine
