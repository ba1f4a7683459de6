#include "predictor/training_free.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "predictor/test_selector.h"
#include "tensor/codec.h"

namespace thermocline::predictor {
namespace {

using compute::testing::OwnedTensor;
using ::testing::ElementsAre;
using testing::SelectorFixture;

model::Config SelectorConfig(size_t width, size_t num_neurons) {
  model::Config config;
  config.width = width;
  config.layers.assign(2, model::LayerSpec{.ffn = {.width = num_neurons}});
  return config;
}

TensorView SignsView(const std::vector<uint64_t>& words, size_t num_neurons) {
  return {.dtype = DType::kI8,
          .shape = {.ne = {words.size() / num_neurons * 8, num_neurons, 1, 1},
                    .rank = 2},
          .data = reinterpret_cast<const std::byte*>(words.data())};
}

// Neuron i differs from x = (1, 1, ..) in the bits of i.
class TrainingFreeSelector : public ::testing::Test {
 protected:
  TrainingFreeSelector() : fixture_(2, 4, 16, 2) {
    for (uint64_t i = 0; i < 16; ++i) words_.push_back(i);
    weights_.signs = SignsView(words_, 16);
    weights_.max_differences = 1;
    for (size_t i = 0; i < 4; ++i) {
      fixture_.x().row(0)[i] = 1.0f;
      fixture_.x().row(1)[i] = i == 0 ? -1.0f : 1.0f;
    }
  }
  size_t Select() {
    const auto selector = MakeTrainingFreeSelector(
        weights_, &fixture_.compute(), &fixture_.scratch());
    EXPECT_TRUE(selector->Select(compute::ProductForm::kRow, fixture_.x(), 2,
                                 fixture_.sets()));
    return selector->num_bytes();
  }
  std::vector<size_t> Members(size_t t) const { return fixture_.Named(t); }

  std::vector<uint64_t> words_;
  SelectorFixture fixture_;
  model::TrainingFreeWeights weights_;
};

TEST_F(TrainingFreeSelector, TakesWhatDiffersInFewSigns) {
  EXPECT_EQ(Select(), 16u * 8);
  EXPECT_THAT(Members(0), ElementsAre(0, 1, 2, 4, 8));
  EXPECT_THAT(Members(1), ElementsAre(0, 1, 3, 5, 9));
  weights_.max_differences = 0;
  Select();
  EXPECT_THAT(Members(0), ElementsAre(0));
  EXPECT_THAT(Members(1), ElementsAre(1));
}

TEST_F(TrainingFreeSelector, ThenTheMarginOfThose) {
  // The image of x is the sum of its elements: 4 and 2. Neuron i needs i.
  const OwnedTensor up(DType::kF32, std::vector<float>(4, 1.0f), 4);
  const OwnedTensor down(DType::kF32, std::vector<float>(16, 1.0f), 1);
  std::vector<float> bias;
  for (size_t i = 0; i < 16; ++i) bias.push_back(-static_cast<float>(i));
  const OwnedTensor owned_bias(DType::kF32, bias, 16);
  weights_.up = up.view();
  weights_.down = down.view();
  EXPECT_EQ(Select(), 16u * 8 + 4 * 4 + 10 * 4);  // both tokens' rows
  EXPECT_THAT(Members(0), ElementsAre(0, 1, 2, 4, 8));
  weights_.bias = owned_bias.view();
  Select();
  EXPECT_THAT(Members(0), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(Members(1), ElementsAre(0, 1));
}

// Of neurons that the signs let through; what the others bring is not read.
TEST_F(TrainingFreeSelector, RefusesAMarginThatIsNotFinite) {
  const auto select = [&](size_t part, size_t place, float value) {
    std::vector<float> parts[3] = {std::vector<float>(4, 1.0f),
                                   std::vector<float>(16, 1.0f),
                                   std::vector<float>(16, 0.0f)};
    if (part < 3) parts[part][place] = value;
    const OwnedTensor up(DType::kF32, parts[0], 4);
    const OwnedTensor down(DType::kF32, parts[1], 1);
    const OwnedTensor bias(DType::kF32, parts[2], 16);
    weights_.up = up.view();
    weights_.down = down.view();
    weights_.bias = bias.view();
    return MakeTrainingFreeSelector(weights_, &fixture_.compute(),
                                    &fixture_.scratch())
        ->Select(compute::ProductForm::kRow, fixture_.x(), 2, fixture_.sets());
  };
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (size_t part = 0; part < 3; ++part) {
      const Status status = select(part, 3, bad);  // row 1's alone
      ASSERT_FALSE(status) << part << ' ' << bad;
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      if (part > 0) EXPECT_TRUE(select(part, 15, bad));
    }
  }
}

// Signs that a session makes are those of the gates, or of up without one.
TEST(OwnSigns, AreTheSignsOfTheTestedMatrix) {
  for (const bool gated : {true, false}) {
    model::Config config = SelectorConfig(96, 70);
    for (auto& spec : config.layers) spec.ffn.gated = gated;
    config.num_layers = 2;
    Random random(3);
    std::vector<std::unique_ptr<OwnedTensor>> owned;
    model::Weights weights;
    weights.layers.resize(2);
    for (model::LayerWeights& layer : weights.layers) {
      std::vector<float> values(96 * 70);
      for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
      owned.push_back(std::make_unique<OwnedTensor>(DType::kQ8_0, values, 96));
      (gated ? layer.ffn.gate : layer.ffn.up) = owned.back()->view();
    }
    const SelectorFixture fixture(1, 96, 70, 2);
    const auto made = OwnSigns::Make(config, weights, fixture.compute());
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const OwnSigns& signs = *made;
    EXPECT_EQ(OwnSigns::NumBytes(config), 2u * 70 * 2 * 8);
    for (size_t l = 0; l < 2; ++l) {
      EXPECT_EQ(signs.layer(l).max_differences, 48);
      const TensorView& view = signs.layer(l).signs;
      EXPECT_EQ(view.shape.num_rows(), 70u);
      for (size_t i = 0; i < 70; ++i) {
        std::vector<float> row(96);
        DequantizeRow(DType::kQ8_0, owned[l]->view().row(i), row);
        uint64_t words[2];
        std::memcpy(words, view.row(i), sizeof(words));
        for (size_t c = 0; c < 96; ++c) {
          ASSERT_EQ((words[c / 64] >> c % 64 & 1) != 0, row[c] < 0.0f);
        }
      }
    }
  }
}

}  // namespace
}  // namespace thermocline::predictor
