#include "engine/ffn/ffn_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

std::string Refusal(const model::Config& config, FfnMode mode,
                    PredictorChoice predictor = PredictorChoice::kAuto) {
  const auto choice = ChooseFfn(config, mode, predictor);
  if (choice.has_value()) return "";
  EXPECT_EQ(choice.error().code, ErrorCode::kInvalidArgument);
  return choice.error().message;
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
  EXPECT_THAT(
      Refusal(silu, FfnMode::kExact),
      ::testing::AllOf(HasSubstr("silu"), HasSubstr("--ffn threshold")));
  EXPECT_THAT(Refusal(silu, FfnMode::kAuto, PredictorChoice::kNone),
              ::testing::StartsWith("--predictor none: silu lets"));
  EXPECT_THAT(Refusal(silu, FfnMode::kFast),
              ::testing::AllOf(HasSubstr("silu lets every neuron through"),
                               HasSubstr("--ffn dense")));
  for (const model::Config& config : {silu, WithPredictor(Activation::kGelu)}) {
    EXPECT_THAT(Refusal(config, FfnMode::kAuto, PredictorChoice::kTrainingFree),
                HasSubstr("lets every neuron through"));
  }
  EXPECT_THAT(Refusal(silu, FfnMode::kThreshold), HasSubstr("no thresholds"));
  EXPECT_THAT(Refusal(relu, FfnMode::kThreshold), HasSubstr("--ffn exact"));
  EXPECT_THAT(Refusal(relu, FfnMode::kFast),
              ::testing::AllOf(HasSubstr("brings no predictors"),
                               HasSubstr("--predictor training-free")));
  EXPECT_THAT(Refusal(silu, FfnMode::kAuto, PredictorChoice::kTrained),
              ::testing::AllOf(HasSubstr("lets every neuron through"),
                               ::testing::Not(HasSubstr("training-free"))));
  EXPECT_THAT(Refusal(relu, FfnMode::kAuto, PredictorChoice::kTrained),
              HasSubstr("thermocline train"));
  EXPECT_THAT(Refusal(silu, FfnMode::kAuto, PredictorChoice::kNone),
              HasSubstr("silu"));
  EXPECT_THAT(Refusal(relu, FfnMode::kDense, PredictorChoice::kTrainingFree),
              HasSubstr("--ffn dense asks no predictor"));
  model::Config mixture = relu;
  for (auto& layer : mixture.layers) layer.ffn.num_experts = 8;
  EXPECT_EQ(Refusal(mixture, FfnMode::kFast, PredictorChoice::kTrainingFree),
            "");
  mixture.predictor.kind = model::PredictorKind::kThermocline;
  EXPECT_EQ(Refusal(mixture, FfnMode::kFast, PredictorChoice::kTrained), "");
}

}  // namespace
}  // namespace thermocline::engine
