#include "npu/static_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace thermocline::npu {
namespace {

model::Config ConfigOf(size_t num_layers) {
  model::Config config;
  config.layers.resize(num_layers);
  return config;
}

std::string Describe(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    text += std::to_string(step.first_layer) + "+" +
            std::to_string(step.num_layers) + " by " +
            std::to_string(step.program_of) + "; ";
  }
  return text;
}

TEST(StaticStepsTest, ConstantsAreCutEvenlyFromTheFirstOn) {
  const model::Config config = ConfigOf(5);
  const std::pair<size_t, const char*> cases[] = {
      {0, "0+5 by 0; "},
      {1, "0+1 by 0; 1+1 by 1; 2+1 by 2; 3+1 by 3; 4+1 by 4; "},
      {2, "0+2 by 0; 2+2 by 2; 4+1 by 4; "},
      {9, "0+5 by 0; "},
  };
  for (const auto& [layers_per_program, expected] : cases) {
    EXPECT_EQ(Describe(MakeSteps(
                  config, {.layers_per_program = layers_per_program}, {})),
              expected);
  }
}

TEST(StaticStepsTest, InputsOfOneKindShareAProgram) {
  const LayerInput f16 = {"w_q", {Element::kF16, {4, 4}}};
  const LayerInput i8 = {"w_q", {Element::kI8, {4, 4}}};
  model::Config config = ConfigOf(5);
  config.layers[4].ffn.width = 7;
  const std::vector<std::vector<LayerInput>> inputs = {
      {f16}, {i8}, {f16}, {i8}, {f16}};
  EXPECT_EQ(Describe(MakeSteps(config, {.weights_are_inputs = true}, inputs)),
            "0+1 by 0; 1+1 by 1; 2+1 by 0; 3+1 by 1; 4+1 by 4; ");
}

}  // namespace
}  // namespace thermocline::npu
