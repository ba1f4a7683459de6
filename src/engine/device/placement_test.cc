#include "engine/device/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::engine {
namespace {

using ::testing::EndsWith;

model::Config ConfigOf(size_t num_layers, const model::FfnSpec& ffn) {
  model::Config config;
  config.num_layers = num_layers;
  config.layers.resize(num_layers);
  for (model::LayerSpec& layer : config.layers) layer.ffn = ffn;
  return config;
}

TEST(DescribePlacement, NamesWhatIsThere) {
  const model::Config config = ConfigOf(3, {.width = 100});
  EXPECT_EQ(Describe(Placement(), config), "nothing");
  Placement placement;
  placement.layers.resize(3);
  EXPECT_EQ(Describe(placement, config), "nothing");
  placement.layers[1].attention = true;
  placement.layers[2].predictor = true;
  placement.layers[0].resident = {1, 2, 5};
  placement.head = true;
  EXPECT_EQ(Describe(placement, config),
            "attention of 1 of 3 layers, predictors of 1 of 3 layers, 1 % of "
            "the neurons, head");
  placement.layers[0].resident = {};
  placement.layers[0].matrices = placement.layers[2].matrices = true;
  EXPECT_EQ(Describe(placement, config),
            "attention of 1 of 3 layers, predictors of 1 of 3 layers, FFNs of "
            "2 of 3 layers, head");
  placement.head_over_link = true;
  EXPECT_THAT(
      Describe(placement, config),
      EndsWith("head; those of the head lie on the host, over the link"));
  placement.layers[0].over_link = placement.layers[2].over_link = true;
  EXPECT_THAT(
      Describe(placement, config),
      EndsWith("; those of 2 layers and the head lie on the host, over the "
               "link"));
  placement.head = false;
  EXPECT_THAT(Describe(placement, config),
              EndsWith("; those of 2 layers lie on the host, over the link"));
}

// Few are not none, and all but a few are not all.
TEST(DescribePlacement, RoundsSharesToWhatTheyAreNot) {
  const model::Config config =
      ConfigOf(1, {.width = 10, .num_experts = 300, .num_experts_used = 2});
  Placement placement;
  placement.layers.resize(1);
  std::vector<uint32_t>& experts = placement.layers[0].experts;
  experts.resize(1);
  EXPECT_EQ(Describe(placement, config), "1 % of the experts");
  experts.resize(299);
  EXPECT_EQ(Describe(placement, config), "99 % of the experts");
  experts.resize(300);
  EXPECT_EQ(Describe(placement, config), "100 % of the experts");
}

}  // namespace
}  // namespace thermocline::engine
