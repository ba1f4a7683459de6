#include "npu/layer_values.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

TEST(LayerValuesTest, ConstantsAreWhatUnpackLayerWrites) {
  const auto model =
      MakeNpuModel({.architecture = "qwen2", .dtype = DType::kQ8_0});
  for (const size_t num_threads : {1, 3}) {
    Graph graph;
    UnpackError error;
    const BlockSpec spec = {.num_layers = 2,
                            .weights = WeightForm::kI4Group128,
                            .num_threads = num_threads};
    const auto layers = AddLayerValues(*model, spec, 0, graph, &error);
    ASSERT_TRUE(layers.has_value());
    EXPECT_GT(error.worst, 0.01);
    EXPECT_EQ(graph.weight_group, -1);  // rows of 64 and 96
    for (size_t l = 0; l < 2; ++l) {
      const auto inputs = LayerInputs(*model, l, spec.weights);
      for (size_t i = 0; i < inputs->size(); ++i) {
        const LayerInput& input = (*inputs)[i];
        std::vector<std::byte> expected(NumBytes(input.type));
        std::vector<std::byte*> data(inputs->size());
        data[i] = expected.data();
        ASSERT_TRUE(UnpackLayer(*model, model->weights().layers[l], l,
                                spec.weights, i, i + 1, data, nullptr));
        const Value value = (*layers)[l].At(input.name);
        EXPECT_EQ(graph.type(value), input.type);
        EXPECT_TRUE(
            std::ranges::equal(graph.bytes_of(graph.node(value)), expected))
            << input.name;
      }
    }
  }
}

TEST(LayerValuesTest, ParametersHaveTheNamesOfInputs) {
  const auto model = MakeNpuModel({.biases = true});
  Graph graph;
  const auto layers = AddLayerValues(*model,
                                     {.first_layer = 1,
                                      .weights = WeightForm::kI8Asymmetric,
                                      .weights_are_inputs = true},
                                     0, graph, nullptr);
  ASSERT_TRUE(layers.has_value());
  const auto inputs = LayerInputs(*model, 1, WeightForm::kI8Asymmetric);
  ASSERT_EQ(graph.parameters().size(), inputs->size());
  for (size_t i = 0; i < inputs->size(); ++i) {
    EXPECT_EQ(graph.parameters()[i]->name, (*inputs)[i].name);
    EXPECT_EQ(graph.parameters()[i]->outputs[0], (*inputs)[i].type);
  }
  EXPECT_EQ(graph.weight_group, -1);
  EXPECT_FALSE((*layers)[0].Find("b_up").has_value());
  const Value x = graph.Parameter("x", {Element::kF32, {1, 3, 64}});
  EXPECT_EQ(ToString(graph.type((*layers)[0].Multiply(graph, x, "q"))),
            "f32[1,3,96]");
}

}  // namespace
}  // namespace thermocline::npu
