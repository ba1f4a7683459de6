#include "engine/ffn/sparse_ffn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/testing/compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using ::testing::ElementsAre;
using testing::OwnedTensor;

// Two layers of two neurons on one input each; the predictor of a layer scores
// neuron i with signs[i] * relu(x).
class TwoLayers {
 public:
  explicit TwoLayers(model::PredictorKind kind) : kind_(kind) {
    config_.width = 1;
    config_.ffn_width = 2;
    config_.num_layers = 2;
    config_.num_heads = config_.num_kv_heads = 1;
    config_.key_width = config_.value_width = config_.rope.width = 2;
    config_.ffn = {.activation = Activation::kRelu, .gated = false};
    config_.predictor.kind = kind_;
    weights_.layers.resize(2);
    for (model::LayerWeights& layer : weights_.layers) {
      layer.ffn.up = up_.view();
      layer.ffn.down_t = down_t_.view();
      layer.ffn.down_bias = bias_.view();
      layer.predictor.up = one_.view();
      layer.predictor.down = signs_.view();
    }
  }

  model::Weights& weights() { return weights_; }

  // delta of one token whose stream and normed input are these.
  float Run(size_t layer_idx, float stream, float normed) {
    if (fixture_ == nullptr) Open();
    scratch().residual.row(0)[0] = stream;
    scratch().normed.row(0)[0] = normed;
    layers_[layer_idx]->Select(100, 1);
    layers_[layer_idx]->Run(1);
    return scratch().delta.row(0)[0];
  }

  // "layer:position:neuron,.." of every report.
  std::vector<std::string> reports;

 private:
  const Scratch& scratch() const { return fixture_->scratch(); }
  void Open() {
    activity_ = [this](int64_t layer_idx, int64_t position,
                       std::span<const uint32_t> active) {
      reports.push_back(
          fmt::format("{}:{}:{}", layer_idx, position, fmt::join(active, ",")));
    };
    fixture_ = std::make_unique<ComputeFixture>(
        config_,
        ScratchShape{
            .batch = 1, .context = 1, .num_threads = 1, .ffn = FfnMode::kFast});
    for (int64_t i = 0; i < 2; ++i) {
      layers_.push_back(MakeSparseFfn({.config = &config_,
                                       .weights = &weights_,
                                       .activity = &activity_,
                                       .compute = &fixture_->compute(),
                                       .scratch = &fixture_->scratch()},
                                      i));
    }
  }

  model::PredictorKind kind_;
  model::Config config_;
  model::Weights weights_;
  OwnedTensor up_{DType::kF32, std::vector<float>{1, 1}, 1};
  OwnedTensor down_t_{DType::kF32, std::vector<float>{1, 10}, 1};
  OwnedTensor bias_{DType::kF32, std::vector<float>{0.5f}, 1};
  OwnedTensor one_{DType::kF32, std::vector<float>{1}, 1};
  OwnedTensor signs_{DType::kF32, std::vector<float>{1, -1}, 1};
  ActivityFn activity_;
  std::unique_ptr<ComputeFixture> fixture_;
  std::vector<std::unique_ptr<FfnExecutor>> layers_;
};

// relu(x) > 0 scores neuron 0 alone; 0 scores both.
TEST(SparseFfn, PowerInferReadsTheStreamOfItsOwnLayer) {
  TwoLayers model(model::PredictorKind::kPowerInfer);
  EXPECT_EQ(model.Run(0, 1.0f, 2.0f), 2.5f);
  EXPECT_EQ(model.Run(0, -1.0f, 2.0f), 22.5f);
  EXPECT_EQ(model.Run(1, 1.0f, 2.0f), 2.5f);
  EXPECT_THAT(model.reports, ElementsAre("0:100:0", "0:100:0,1", "1:100:0"));
}

TEST(SparseFfn, KairoxReadsTheNormedInputOfTheLayerBefore) {
  TwoLayers model(model::PredictorKind::kKairox);
  EXPECT_EQ(model.Run(0, -1.0f, 2.0f), 2.5f);  // layer 0: its own input
  EXPECT_EQ(model.Run(1, -1.0f, 3.0f), 3.5f);  // as layer 0 said
  EXPECT_THAT(model.reports, ElementsAre("0:100:0", "1:100:0"));
  EXPECT_EQ(model.Run(0, 1.0f, 0.0f), 0.5f);
  EXPECT_EQ(model.Run(1, 1.0f, 3.0f), 33.5f);
}

TEST(SparseFfn, ALayerWithoutAPredictorIsDenseAndStillPredictsTheNext) {
  TwoLayers model(model::PredictorKind::kKairox);
  model.weights().layers[0].predictor = {};
  EXPECT_EQ(model.Run(0, 1.0f, 2.0f), 22.5f);
  EXPECT_EQ(model.Run(1, 1.0f, 3.0f), 3.5f);
  EXPECT_THAT(model.reports, ElementsAre("1:100:0"));
}

TEST(SparseFfn, WithoutTheTransposedDown) {
  const OwnedTensor down(DType::kF32, std::vector<float>{1, 10}, 2);
  TwoLayers model(model::PredictorKind::kPowerInfer);
  for (model::LayerWeights& layer : model.weights().layers) {
    layer.ffn.down_t = {};
    layer.ffn.down = down.view();
  }
  EXPECT_EQ(model.Run(0, 1.0f, 2.0f), 2.5f);
  EXPECT_EQ(model.Run(1, -1.0f, 2.0f), 22.5f);
}

}  // namespace
}  // namespace thermocline::engine
