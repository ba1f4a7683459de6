#include "engine/ffn/sparse_hidden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "engine/testing/compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using ::testing::ElementsAre;
using testing::OwnedTensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

model::Config ConfigOf(int64_t width, int64_t ffn_width) {
  model::Config config;
  config.width = width;
  config.ffn_width = ffn_width;
  config.num_heads = config.num_kv_heads = 1;
  config.key_width = config.value_width = config.rope.width = 2;
  config.ffn.activation = Activation::kRelu;
  return config;
}

// Neurons with a gate of 1 input: gate i is gates[i] * x, up i is ups[i] * x.
class SmallFfn {
 public:
  SmallFfn(std::vector<float> gates, std::vector<float> ups)
      : gate_(DType::kF32, gates, 1),
        up_(DType::kF32, ups, 1),
        config_(ConfigOf(1, static_cast<int64_t>(ups.size()))),
        fixture_(config_, {.batch = 2,
                           .context = 1,
                           .num_threads = 2,
                           .ffn = FfnMode::kFast}) {
    weights_.gate = gate_.view();
    weights_.up = up_.view();
    fixture_.scratch().normed.row(0)[0] = 1.0f;
    fixture_.scratch().normed.row(1)[0] = -1.0f;
  }

  model::FfnConfig& config() { return config_.ffn; }
  model::FfnWeights& weights() { return weights_; }

  // Runs both tokens with these candidates; empty order: as they lie.
  void Run(const std::vector<uint64_t>& candidates,
           const std::vector<uint32_t>& order) {
    for (size_t t = 0; t < 2; ++t) {
      fixture_.scratch().sparse.candidates(0, t).words[0] = candidates[t];
    }
    SparseHidden(&config_.ffn, &weights_, order, 0, &fixture_.compute(),
                 &fixture_.scratch())
        .Run(2);
  }
  std::vector<uint32_t> Fired(size_t t) const {
    const SparseScratch& sparse = fixture_.scratch().sparse;
    const uint32_t* fired = sparse.fired + t * sparse.num_neurons;
    return {fired, fired + sparse.num_fired[t]};
  }
  std::vector<float> Hidden(size_t t) const {
    const float* row = fixture_.scratch().up.row(t);
    return {row, row + fixture_.scratch().sparse.num_fired[t]};
  }

 private:
  OwnedTensor gate_;
  OwnedTensor up_;
  model::Config config_;
  model::FfnWeights weights_;
  ComputeFixture fixture_;
};

TEST(SparseHidden, GateThenUp) {
  SmallFfn ffn({1, 2, -3, 4, 5}, {10, 20, 30, 0, kNaN});
  // The NaN in up is not looked at: neuron 4 is no candidate of the first
  // token, and its gate is closed for the second.
  ffn.Run({0b01111, 0b11111}, {});
  EXPECT_THAT(ffn.Fired(0), ElementsAre(0, 1));
  EXPECT_THAT(ffn.Hidden(0), ElementsAre(10, 40));
  EXPECT_THAT(ffn.Fired(1), ElementsAre(2));
  EXPECT_THAT(ffn.Hidden(1), ElementsAre(-90));
  ffn.config().activation = Activation::kDRelu;
  ffn.Run({0b01111, 0b01111}, {});
  EXPECT_THAT(ffn.Fired(0), ElementsAre(0, 1));
  EXPECT_THAT(ffn.Fired(1), ElementsAre());
}

TEST(SparseHidden, DamageInAGateIsNotDropped) {
  SmallFfn ffn({1, kNaN}, {1, 1});
  ffn.Run({0b11, 0b10}, {});
  EXPECT_THAT(ffn.Fired(0), ElementsAre(0, 1));
  EXPECT_THAT(ffn.Fired(1), ElementsAre(1));
}

TEST(SparseHidden, BiasesOfCandidatesOnly) {
  SmallFfn ffn({1, 1, 1}, {1, 1, 1});
  const OwnedTensor gate_bias(DType::kF32, std::vector<float>{0, -1, 5}, 3);
  const OwnedTensor up_bias(DType::kF32, std::vector<float>{7, 7, 0.5f}, 3);
  ffn.weights().gate_bias = gate_bias.view();
  ffn.weights().up_bias = up_bias.view();
  ffn.Run({0b111, 0b101}, {});
  EXPECT_THAT(ffn.Fired(0), ElementsAre(0, 2));
  EXPECT_THAT(ffn.Hidden(0), ElementsAre(8, 9));
  EXPECT_THAT(ffn.Fired(1), ElementsAre(2));
  EXPECT_THAT(ffn.Hidden(1), ElementsAre(-2));
  ffn.config().gated = false;
  ffn.Run({0b110, 0b100}, {});
  EXPECT_THAT(ffn.Fired(0), ElementsAre(1, 2));
  EXPECT_THAT(ffn.Hidden(0), ElementsAre(8, 1.5f));
  EXPECT_THAT(ffn.Fired(1), ElementsAre());
}

TEST(SparseHidden, ThePlacesOrderTheList) {
  SmallFfn ffn({1, 2, 3, 4}, {1, 1, 1, 1});
  ffn.Run({0b1011, 0b1111}, {3, 2, 0, 1});
  EXPECT_THAT(ffn.Fired(0), ElementsAre(3, 0, 1));
  EXPECT_THAT(ffn.Hidden(0), ElementsAre(4, 1, 2));
  EXPECT_THAT(ffn.Fired(1), ElementsAre());
}

// Wide enough for several blocks of places, with every candidate density.
TEST(SparseHidden, SameNeuronsWhateverTheOrder) {
  constexpr size_t kNeurons = 700;
  constexpr size_t kWidth = 64;
  Random random(11);
  std::vector<float> values(kNeurons * kWidth);
  for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
  const OwnedTensor up(DType::kQ8_0, values, kWidth);
  model::Config config = ConfigOf(kWidth, kNeurons);
  config.ffn.gated = false;
  model::FfnWeights weights;
  weights.up = up.view();
  std::vector<uint32_t> order(kNeurons);
  for (uint32_t i = 0; i < kNeurons; ++i) order[i] = i * 37 % kNeurons;
  ComputeFixture fixture(
      config,
      {.batch = 1, .context = 1, .num_threads = 3, .ffn = FfnMode::kFast},
      kernels::BestIsa());
  const Scratch& scratch = fixture.scratch();
  for (float& x : scratch.normed.span(0)) x = random.Uniform(-1.0f, 1.0f);
  for (const uint64_t word : {~uint64_t{0}, uint64_t{0x1234567890abcdef}}) {
    const predictor::NeuronSet set = scratch.sparse.candidates(0, 0);
    for (size_t i = 0; i < predictor::WordsOf(kNeurons); ++i) {
      set.words[i] = word;
    }
    set.words[kNeurons / 64] &= (uint64_t{1} << kNeurons % 64) - 1;
    std::vector<std::vector<float>> hidden;
    for (const auto& places : {std::vector<uint32_t>(), order}) {
      SparseHidden(&config.ffn, &weights, places, 0, &fixture.compute(),
                   &scratch)
          .Run(1);
      std::vector<float>& dense = hidden.emplace_back(kNeurons);
      for (size_t i = 0; i < scratch.sparse.num_fired[0]; ++i) {
        EXPECT_TRUE(set.Has(scratch.sparse.fired[i]));
        dense[scratch.sparse.fired[i]] = scratch.up.row(0)[i];
      }
    }
    EXPECT_EQ(hidden[0], hidden[1]);
    EXPECT_GT(scratch.sparse.num_fired[0], 100u);
  }
}

}  // namespace
}  // namespace thermocline::engine
