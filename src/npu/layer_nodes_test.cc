#include "npu/layer_nodes.h"

#include <gtest/gtest.h>

#include "npu/test_graph.h"
#include "npu/test_plain_layers.h"

namespace thermocline::npu {
namespace {

TEST(LayerNodesTest, RowsAreNormedByTheirOwnSize) {
  const std::vector<float> weight = {1.0f, 2.0f, -1.0f, 0.5f};
  const std::vector<float> bias = {0.1f, 0.2f, 0.3f, 0.4f};
  const auto view_of = [](const std::vector<float>& values) {
    return TensorView{
        .shape = {.ne = {values.size(), 1, 1, 1}, .rank = 1},
        .data = reinterpret_cast<const std::byte*>(values.data())};
  };
  const std::vector<Numbers64> rows = {{3.0, 1.0, 2.0, -5.0},
                                       {1e-3, 2e-3, 0.0, 1e-3}};
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const bool has_bias : {false, true}) {
      Graph graph;
      std::vector<double> all = rows[0];
      all.insert(all.end(), rows[1].begin(), rows[1].end());
      const Value x = Numbers(graph, {Element::kF32, {1, 2, 4}}, all);
      const auto vector_of = [&](const std::vector<float>& values) {
        return graph.Constant({Element::kF32, {4}},
                              std::as_bytes(std::span(values)));
      };
      std::optional<Value> added;
      if (has_bias) added = vector_of(bias);
      graph.Output(AddNorm(graph, kind, 1e-5f, x, vector_of(weight), added),
                   "y");
      const std::vector<float> y = ReferenceOf(graph);
      for (size_t r = 0; r < 2; ++r) {
        const Numbers64 expected =
            PlainNorm(kind, 1e-5, view_of(weight),
                      has_bias ? view_of(bias) : TensorView(), rows[r]);
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_NEAR(double{y[r * 4 + i]}, expected[i], 1e-6);
        }
      }
    }
  }
}

TEST(LayerNodesTest, ElementsRotateWithTheOtherHalf) {
  Graph graph;
  const Value heads = Numbers(graph, {Element::kF32, {1, 1, 2, 5}},
                              {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  // By 90 degrees, and not at all.
  const Value cos = Numbers(graph, {Element::kF32, {1, 1, 1, 2}}, {0, 1});
  const Value sin = Numbers(graph, {Element::kF32, {1, 1, 1, 2}}, {1, 0});
  graph.Output(AddRotated(graph, heads, cos, sin), "y");
  EXPECT_EQ(ReferenceOf(graph),
            (std::vector<float>{-3, 2, 1, 4, 5, -8, 7, 6, 9, 10}));
}

TEST(LayerNodesTest, EveryActivationIsItsFunction) {
  const std::vector<double> x = {-3.0, -0.2, 0.0, 0.2, 0.25, 0.3, 4.0};
  for (const ActivationInfo& info : Activations()) {
    const model::FfnSpec ffn = {.activation = info.activation,
                                .threshold = 0.25f};
    Graph graph;
    graph.Output(
        AddActivated(graph, ffn, Numbers(graph, {Element::kF32, {7}}, x)), "y");
    const std::vector<float> y = ReferenceOf(graph);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(double{y[i]}, PlainActivation(ffn, x[i]), 1e-6)
          << info.name << " of " << x[i];
    }
  }
}

}  // namespace
}  // namespace thermocline::npu
