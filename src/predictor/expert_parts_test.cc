#include "predictor/expert_parts.h"

#include <gtest/gtest.h>

#include <vector>

#include "compute/test_compute.h"

namespace thermocline::predictor {
namespace {

using compute::testing::OwnedTensor;

TEST(ExpertParts, AreRowsOfTheLayers) {
  const OwnedTensor up(DType::kF32, std::vector<float>{1, 2, 3, 4}, 2);
  const OwnedTensor down(DType::kF32,
                         std::vector<float>{0, 1, 10, 11, 20, 21, 30, 31}, 2);
  const OwnedTensor bias(DType::kF32, std::vector<float>{5, 6, 7, 8}, 4);
  model::PredictorWeights layer;
  layer.up = up.view();
  layer.down = down.view();
  layer.down_bias = bias.view();
  const model::PredictorWeights part = PartOf(layer, 2, 2);
  EXPECT_EQ(part.up.data, layer.up.data);
  EXPECT_FALSE(part.up_bias);
  EXPECT_EQ(part.down.shape.num_rows(), 2u);
  EXPECT_EQ(part.down.data, layer.down.row(2));
  EXPECT_EQ(part.down_bias.shape.ne[0], 2u);
  EXPECT_EQ(reinterpret_cast<const float*>(part.down_bias.data)[0], 7.0f);

  model::TrainingFreeWeights free;
  free.signs = down.view();
  free.max_differences = 3;
  const model::TrainingFreeWeights free_part = PartOf(free, 1, 3);
  EXPECT_EQ(free_part.signs.data, free.signs.row(1));
  EXPECT_EQ(free_part.max_differences, 3);
  EXPECT_FALSE(free_part.down);
  free.down = down.view();
  free.bias = bias.view();
  const model::TrainingFreeWeights with_margin = PartOf(free, 1, 3);
  EXPECT_EQ(with_margin.down.shape.num_rows(), 3u);
  EXPECT_EQ(with_margin.down.data, free.down.row(1));
  EXPECT_EQ(with_margin.bias.shape.ne[0], 3u);
  EXPECT_EQ(reinterpret_cast<const float*>(with_margin.bias.data)[0], 6.0f);
}

}  // namespace
}  // namespace thermocline::predictor
