#include "predictor/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "predictor/test_selector.h"

namespace thermocline::predictor {
namespace {

using compute::ProductForm;
using compute::testing::OwnedTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SelectorFixture;

TEST(LowRankSelector, ScoresWithReluAndBiases) {
  SelectorFixture fixture(2, 2, 4, 2);
  const OwnedTensor up(DType::kF32, std::vector<float>{1, 0, 0, 1, 1, 1}, 2);
  const OwnedTensor up_bias(DType::kF32, std::vector<float>{0, 0, -2}, 3);
  const OwnedTensor down(
      DType::kF32, std::vector<float>{1, 0, 0, -1, 1, 0, 0, 0, 1, 0, 0, -1}, 3);
  const OwnedTensor down_bias(DType::kF32, std::vector<float>{0, 0, -1, 0.5f},
                              4);
  model::PredictorWeights weights;
  weights.up = up.view();
  weights.down = down.view();
  const compute::Rows& x = fixture.x();
  x.row(0)[0] = 2.0f;
  x.row(0)[1] = 1.0f;
  x.row(1)[0] = -3.0f;
  x.row(1)[1] = 1.0f;
  const auto predict = [&](float threshold) {
    EXPECT_TRUE(MakeLowRankSelector(weights, threshold, &fixture.compute(),
                                    &fixture.scratch())
                    ->Select(ProductForm::kRow, x, 2, fixture.sets()));
  };
  // Hidden 2 1 3 and 0 1 0; scores 2 -1 3 -3 and 0 1 0 0.
  predict(0.0f);
  EXPECT_THAT(fixture.Named(0), ElementsAre(0, 2));
  EXPECT_THAT(fixture.Named(1), ElementsAre(0, 1, 2, 3));
  weights.up_bias = up_bias.view();
  weights.down_bias = down_bias.view();
  // Hidden 2 1 1 and 0 1 0; scores 2 -1 0 -0.5 and 0 1 -1 0.5.
  predict(0.0f);
  EXPECT_THAT(fixture.Named(0), ElementsAre(0, 2));
  EXPECT_THAT(fixture.Named(1), ElementsAre(0, 1, 3));
  predict(0.5f);
  EXPECT_THAT(fixture.Named(0), ElementsAre(0));
  EXPECT_THAT(fixture.Named(1), ElementsAre(1, 3));
}

// Whatever is not finite is told, also where it would choose a neuron too many
// or one too few, in either matrix and either bias, in every form.
TEST(LowRankSelector, RefusesWhatIsNotFinite) {
  constexpr size_t kWidth = 3, kRank = 32, kNeurons = 70;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  SelectorFixture fixture(2, kWidth, kNeurons, 2, kernels::BestIsa());
  for (size_t t = 0; t < 2; ++t) {
    for (size_t i = 0; i < kWidth; ++i) fixture.x().row(t)[i] = 1.0f;
  }
  std::vector<float> parts[4] = {std::vector<float>(kRank * kWidth, 1.0f),
                                 std::vector<float>(kRank, 0.0f),
                                 std::vector<float>(kNeurons * kRank, 1.0f),
                                 std::vector<float>(kNeurons, 0.0f)};
  const auto select = [&](ProductForm form) {
    const OwnedTensor up(DType::kF32, parts[0], kWidth);
    const OwnedTensor up_bias(DType::kF32, parts[1], kRank);
    const OwnedTensor down(DType::kF32, parts[2], kRank);
    const OwnedTensor down_bias(DType::kF32, parts[3], kNeurons);
    model::PredictorWeights weights;
    weights.up = up.view();
    weights.up_bias = up_bias.view();
    weights.down = down.view();
    weights.down_bias = down_bias.view();
    return MakeLowRankSelector(weights, 0.0f, &fixture.compute(),
                               &fixture.scratch())
        ->Select(form, fixture.x(), 2, fixture.sets());
  };
  for (const ProductForm form : {ProductForm::kRow, ProductForm::kBatch}) {
    EXPECT_TRUE(select(form));
    for (std::vector<float>& part : parts) {
      for (const float bad : {kNan, kInf, -kInf}) {
        const float good = std::exchange(part.back(), bad);
        const Status status = select(form);
        part.back() = good;
        ASSERT_FALSE(status) << &part - parts << ' ' << bad;
        EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
        EXPECT_THAT(status.error().message, HasSubstr("scores are not finite"));
      }
    }
  }
}

// Rows that several threads take, of every number: the sets are those of the
// scores, up to the last neuron.
TEST(LowRankSelector, EveryNeuronOfManyPieces) {
  for (const size_t num_neurons : {63, 64, 65, 4097}) {
    SelectorFixture fixture(2, 1, num_neurons, 3, kernels::BestIsa());
    // Rank 32, so that rows make many pieces; score i is x or 1 - x.
    std::vector<float> down(num_neurons * 32);
    std::vector<float> bias(num_neurons);
    std::vector<size_t> odd;
    for (size_t i = 0; i < bias.size(); ++i) {
      down[i * 32] = i % 3 == 1 ? -1.0f : 1.0f;
      bias[i] = i % 3 == 1 ? 1.0f : -2.0f;
      if (i % 3 == 1) odd.push_back(i);
    }
    const OwnedTensor up(DType::kF32, std::vector<float>(32, 1.0f), 1);
    const OwnedTensor owned_down(DType::kF32, down, 32);
    const OwnedTensor owned_bias(DType::kF32, bias, num_neurons);
    model::PredictorWeights weights;
    weights.up = up.view();
    weights.down = owned_down.view();
    weights.down_bias = owned_bias.view();
    fixture.x().row(0)[0] = 1.0f;
    fixture.x().row(1)[0] = 0.5f;
    const auto selector = MakeLowRankSelector(weights, 0.0f, &fixture.compute(),
                                              &fixture.scratch());
    for (const ProductForm form : {ProductForm::kRow, ProductForm::kBatch}) {
      EXPECT_TRUE(selector->Select(form, fixture.x(), 2, fixture.sets()));
      EXPECT_EQ(fixture.Named(0), odd);
      EXPECT_EQ(fixture.Named(1), odd);
    }
    EXPECT_EQ(selector->num_bytes(), 4u * 32 * (1 + num_neurons));
  }
}

}  // namespace
}  // namespace thermocline::predictor
