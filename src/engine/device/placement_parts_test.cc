#include "engine/device/placement_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device/test_plans.h"

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LayoutWithout;
using testing::OpenPlanned;
using testing::PlannedModel;
using testing::TinySpec;

DeviceParts PartsOf(const PlannedModel& planned,
                    std::optional<DType> missing = std::nullopt,
                    Demands demands = {}) {
  demands.layers.resize(planned.model->config().num_layers);
  return PlanDeviceParts(*planned.model, planned.choice, LayoutWithout(missing),
                         64, demands);
}

TEST(DeviceParts, TheFormOfAnFfnIsThatOfItsMode) {
  struct Case {
    const char* kind;
    FfnForm form;
    bool has_predictor;
  };
  const Case cases[] = {{"dense", FfnForm::kMatrices, false},
                        {"exact", FfnForm::kNeurons, false},
                        {"fast", FfnForm::kNeurons, true},
                        {"mixture", FfnForm::kExperts, false}};
  for (const Case& c : cases) {
    const PlannedModel planned = OpenPlanned(c.kind);
    ASSERT_NE(planned.model, nullptr);
    const DeviceParts parts = PartsOf(planned);
    EXPECT_THAT(parts.left_out, IsEmpty());
    EXPECT_TRUE(parts.head);
    for (const LayerParts& layer : parts.layers) {
      EXPECT_TRUE(layer.attention);
      EXPECT_EQ(layer.ffn, c.form) << c.kind;
      EXPECT_EQ(layer.predictor.has_value(), c.has_predictor) << c.kind;
      EXPECT_EQ(layer.matrix_bytes > 0, c.form == FfnForm::kMatrices);
      EXPECT_EQ(layer.record_bytes > 0, c.form == FfnForm::kNeurons);
      EXPECT_EQ(layer.expert_bytes.size(),
                c.form == FfnForm::kExperts ? 8u : 0u);
    }
  }
}

// Records that all neurons are computed of go there as neurons too.
TEST(DeviceParts, RecordsAreNeurons) {
  PlannedModel planned = OpenPlanned("exact");
  ASSERT_NE(planned.model, nullptr);
  planned.choice = {};
  EXPECT_EQ(PartsOf(planned).layers[0].ffn, FfnForm::kNeurons);
}

TEST(DeviceParts, ReasonsAreSaidOnceForAllLayers) {
  const PlannedModel dense = OpenPlanned("dense");
  ASSERT_NE(dense.model, nullptr);
  EXPECT_THAT(
      PartsOf(dense, DType::kF16).left_out,
      ElementsAre(HasSubstr("attention of layers 0 to 2: the query matrix in "
                            "F16 has no kernel"),
                  HasSubstr("the FFN of layers 0 to 2: the gate in F16"),
                  HasSubstr("the head in F16")));
  const PlannedModel fast = OpenPlanned("fast");
  ASSERT_NE(fast.model, nullptr);
  EXPECT_THAT(PartsOf(fast, DType::kF16).left_out,
              ::testing::Contains(HasSubstr("the predictor of layers 0 to 2")));
  PlannedModel plain = OpenPlanned("dense");
  plain.choice.mode = FfnMode::kExact;
  EXPECT_THAT(PartsOf(plain).left_out,
              ElementsAre(HasSubstr("the file is not prepared")));
}

// What stays on the host anyway needs no reason.
TEST(DeviceParts, WhatStaysOnTheHostIsNotAskedAbout) {
  const PlannedModel dense = OpenPlanned("dense");
  ASSERT_NE(dense.model, nullptr);
  Demands demands;
  demands.layers.resize(3);
  demands.layers[1] = {Demand::kHost, Demand::kHost, Demand::kHost};
  demands.head = Demand::kHost;
  const DeviceParts parts = PartsOf(dense, DType::kF16, demands);
  EXPECT_THAT(parts.left_out, ElementsAre(HasSubstr("attention of layers 0, 2"),
                                          HasSubstr("FFN of layers 0, 2")));
  demands.layers[0] = demands.layers[1];
  EXPECT_THAT(PartsOf(dense, DType::kF16, demands).left_out,
              ElementsAre(HasSubstr("attention of layer 2:"),
                          HasSubstr("FFN of layer 2:")));
  EXPECT_FALSE(PartsOf(dense, std::nullopt, demands).head);
}

}  // namespace
}  // namespace thermocline::engine
