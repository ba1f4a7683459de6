#include "engine/weight_bytes.h"

#include <gtest/gtest.h>

#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::MakeTinyModel;
using testing::TinySpec;

TEST(WeightBytes, CountOneEmbeddingRow) {
  TinySpec spec;
  spec.num_layers = 1;
  const uint64_t layer_floats =
      96 + 96 * 96 + 2 * 96 * 32 + 96 * 96 + 96 + 3 * 96 * 160;
  const auto separate = MakeTinyModel(spec);
  ASSERT_NE(separate, nullptr);
  EXPECT_EQ(WeightBytesPerToken(*separate),
            4 * (layer_floats + 96 + 50 * 96 + 96));
  spec.tied = true;
  const auto tied = MakeTinyModel(spec);
  ASSERT_NE(tied, nullptr);
  EXPECT_EQ(WeightBytesPerToken(*tied), 4 * (layer_floats + 96 + 50 * 96));
}

TEST(WeightBytes, CountTheExpertsThatATokenUses) {
  TinySpec spec;
  spec.num_layers = 1;
  const auto dense = MakeTinyModel(spec);
  spec.num_experts = 5;
  spec.num_experts_used = 3;
  const auto experts = MakeTinyModel(spec);
  ASSERT_TRUE(dense != nullptr && experts != nullptr);
  // Two FFNs more than one, and the router.
  EXPECT_EQ(WeightBytesPerToken(*experts) - WeightBytesPerToken(*dense),
            4 * (2 * 3 * 96 * 160 + 5 * 96));
  // Four tokens can choose all five, and read a row of embeddings each.
  EXPECT_EQ(WeightBytesPerBatch(*experts, FfnMode::kDense,
                                PredictorChoice::kNone, 4) -
                WeightBytesPerToken(*experts),
            4 * (2 * 3 * 96 * 160 + 3 * 96));
}

TEST(WeightBytes, CountOnePositionAndOneDownMatrix) {
  TinySpec spec;
  spec.architecture = "opt";
  spec.num_layers = 1;
  spec.tied = true;
  const uint64_t norms = 3 * 2 * 96;
  const uint64_t attention = 96 * (96 + 32 + 32 + 96) + 96 + 32 + 32 + 96;
  const uint64_t ffn = 2 * 96 * 160 + 160 + 96;
  for (const bool down_t : {false, true}) {
    spec.down_t = down_t;
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(WeightBytesPerToken(*model),
              4 * (norms + attention + ffn + 50 * 96 + 96));
  }
}

TEST(WeightBytes, CountPredictorsThatRun) {
  TinySpec spec;
  spec.num_layers = 3;
  spec.low_ranks = {8, 0, 5};
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(
      WeightBytesPerToken(*model, FfnMode::kFast, PredictorChoice::kTrained) -
          WeightBytesPerToken(*model),
      4 * (13 * (96 + 1 + 160) + 2 * 160));
  // A bit of each of 96 columns, in whole words; the trained ones rest.
  EXPECT_EQ(WeightBytesPerToken(*model, FfnMode::kFast,
                                PredictorChoice::kTrainingFree) -
                WeightBytesPerToken(*model),
            3 * 160 * 2 * 8);
}

}  // namespace
}  // namespace thermocline::engine
