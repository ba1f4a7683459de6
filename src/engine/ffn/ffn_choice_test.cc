#include "engine/ffn/ffn_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/remedy.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;

model::Config ConfigOf(Activation activation) {
  model::Config config;
  config.layers.assign(2, model::LayerSpec{.ffn = {.activation = activation}});
  return config;
}

model::Config WithPredictor(Activation activation) {
  model::Config config = ConfigOf(activation);
  config.predictor.kind = model::PredictorKind::kThermocline;
  return config;
}

FfnChoice Choose(const model::Config& config, FfnMode mode,
                 PredictorChoice predictor = PredictorChoice::kAuto,
                 bool has_training_free = false) {
  model::Config with_free = config;
  with_free.has_training_free = has_training_free;
  const auto choice = ChooseFfn(with_free, mode, predictor);
  EXPECT_TRUE(choice.has_value()) << choice.error().message;
  return choice.value_or(FfnChoice());
}

TEST(FfnChoice, AutoTakesWhatTheFileIsFor) {
  model::Config relu = ConfigOf(Activation::kFatRelu);
  EXPECT_EQ(Choose(relu, FfnMode::kAuto).mode, FfnMode::kDense);
  relu.records.resize(1);
  EXPECT_EQ(Choose(relu, FfnMode::kAuto).mode, FfnMode::kExact);
  EXPECT_EQ(Choose(relu, FfnMode::kDense).mode, FfnMode::kDense);
  model::Config silu = ConfigOf(Activation::kSilu);
  silu.records.resize(1);
  silu.thresholds = {0.1f};
  EXPECT_EQ(Choose(silu, FfnMode::kAuto).mode, FfnMode::kDense);
  EXPECT_EQ(Choose(silu, FfnMode::kThreshold).mode, FfnMode::kThreshold);
  const FfnChoice fast =
      Choose(WithPredictor(Activation::kRelu), FfnMode::kAuto);
  EXPECT_EQ(fast.mode, FfnMode::kFast);
  EXPECT_EQ(fast.predictor, PredictorChoice::kTrained);
  EXPECT_FALSE(fast.own_signs);
}

TEST(FfnChoice, PredictorsAreTrainedFreeOrNone) {
  const model::Config plain = ConfigOf(Activation::kRelu);
  const model::Config trained = WithPredictor(Activation::kRelu);
  const FfnChoice of_signs =
      Choose(plain, FfnMode::kAuto, PredictorChoice::kTrainingFree);
  EXPECT_EQ(of_signs.mode, FfnMode::kFast);
  EXPECT_EQ(of_signs.predictor, PredictorChoice::kTrainingFree);
  EXPECT_TRUE(of_signs.own_signs);
  EXPECT_FALSE(
      Choose(plain, FfnMode::kFast, PredictorChoice::kTrainingFree, true)
          .own_signs);
  EXPECT_EQ(
      Choose(plain, FfnMode::kFast, PredictorChoice::kAuto, true).predictor,
      PredictorChoice::kTrainingFree);
  EXPECT_EQ(
      Choose(trained, FfnMode::kFast, PredictorChoice::kAuto, true).predictor,
      PredictorChoice::kTrained);
  EXPECT_EQ(
      Choose(trained, FfnMode::kFast, PredictorChoice::kTrainingFree).predictor,
      PredictorChoice::kTrainingFree);
  EXPECT_EQ(Choose(trained, FfnMode::kFast, PredictorChoice::kNone).mode,
            FfnMode::kExact);
  EXPECT_EQ(Choose(trained, FfnMode::kAuto, PredictorChoice::kNone).mode,
            FfnMode::kExact);
}

TEST(FfnChoice, RefusalsSayWhatToDo) {
  const model::Config relu = ConfigOf(Activation::kRelu);
  const model::Config silu = ConfigOf(Activation::kSilu);
  const model::Config gelu = WithPredictor(Activation::kGelu);
  struct Case {
    const model::Config* config;
    FfnMode mode;
    PredictorChoice predictor;
    const char* message;
    Remedy remedy;
  };
  const Case cases[] = {
      {&silu, FfnMode::kExact, PredictorChoice::kAuto,
       "exact FFNs: silu lets every neuron through", Remedy::kDenseOrThreshold},
      {&silu, FfnMode::kAuto, PredictorChoice::kNone,
       "FFNs without a predictor: silu lets", Remedy::kDenseOrThreshold},
      {&silu, FfnMode::kFast, PredictorChoice::kAuto,
       "silu lets every neuron through", Remedy::kDenseOrThreshold},
      {&silu, FfnMode::kAuto, PredictorChoice::kTrainingFree,
       "silu lets every neuron through", Remedy::kDenseOrThreshold},
      {&gelu, FfnMode::kAuto, PredictorChoice::kTrainingFree,
       "gelu lets every neuron through", Remedy::kDenseOrThreshold},
      {&silu, FfnMode::kAuto, PredictorChoice::kTrained,
       "silu lets every neuron through", Remedy::kDenseOrThreshold},
      {&silu, FfnMode::kThreshold, PredictorChoice::kAuto,
       "the file has no thresholds", Remedy::kFindThresholds},
      {&relu, FfnMode::kThreshold, PredictorChoice::kAuto,
       "relu closes neurons by itself", Remedy::kExact},
      {&relu, FfnMode::kFast, PredictorChoice::kAuto, "brings no predictors",
       Remedy::kTrainingFreePredictor},
      {&relu, FfnMode::kAuto, PredictorChoice::kTrained,
       "trained predictors: the model brings none", Remedy::kTrainPredictor},
      {&relu, FfnMode::kDense, PredictorChoice::kTrainingFree,
       "predictor training-free: FFNs in mode dense", Remedy::kFast},
  };
  for (const Case& c : cases) {
    const auto choice = ChooseFfn(*c.config, c.mode, c.predictor);
    ASSERT_FALSE(choice.has_value()) << c.message;
    EXPECT_EQ(choice.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(choice.error().message, HasSubstr(c.message));
    EXPECT_EQ(choice.error().advice.remedy, c.remedy) << c.message;
  }
  model::Config mixture = relu;
  for (auto& layer : mixture.layers) layer.ffn.num_experts = 8;
  EXPECT_TRUE(
      ChooseFfn(mixture, FfnMode::kFast, PredictorChoice::kTrainingFree));
  mixture.predictor.kind = model::PredictorKind::kThermocline;
  EXPECT_TRUE(ChooseFfn(mixture, FfnMode::kFast, PredictorChoice::kTrained));
}

}  // namespace
}  // namespace thermocline::engine
