#include "engine/ffn/sparse_ffn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "compute/stage_times.h"
#include "engine/testing/test_compute_fixture.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using ::testing::ElementsAre;
using testing::OwnedTensor;

constexpr size_t kWordNeurons = 8;

// Chooses the neurons of a word.
class FixedSelector final : public predictor::Selector {
 public:
  explicit FixedSelector(uint64_t word) : word_(word) {}
  Status Select(compute::ProductForm /*form*/, const compute::Rows& /*x*/,
                size_t num_rows, const neuron::ActiveSets& sets) override {
    for (size_t t = 0; t < num_rows; ++t) sets.named(t).words[0] = word_;
    return {};
  }
  size_t num_bytes() const override { return 1000; }

 private:
  uint64_t word_;
};

// Neuron i of one input x has gate x, up x and down 10^i.
class OneWordFfn {
 public:
  OneWordFfn() {
    config_.width = 1;
    config_.layers = {model::LayerSpec{
        .ffn = {.activation = Activation::kRelu, .width = kWordNeurons}}};
    weights.gate = ones_.view();
    weights.up = ones_.view();
    weights.down_t = powers_.view();
  }

  // The outputs of generated rows with these inputs, on the neurons of the
  // word.
  std::vector<float> Run(const std::vector<float>& x, uint64_t word) {
    fixture_ = std::make_unique<ComputeFixture>(
        config_, ScratchShape{.batch = 20,
                              .context = 1,
                              .num_threads = 2,
                              .is_sparse = true,
                              .is_observed = true});
    const Scratch& scratch = fixture_->scratch();
    std::iota(scratch.ffn[0].sparse.all_ids,
              scratch.ffn[0].sparse.all_ids + kWordNeurons, 0u);
    const auto records = MakeMappedStore(weights);
    std::vector<Selection> selections;
    selections.push_back({"", std::make_unique<FixedSelector>(word)});
    const auto ffn = MakeSparseFfn({.config = &config_.layers[0].ffn,
                                    .weights = &weights,
                                    .records = records.get(),
                                    .order = order,
                                    .has_candidates = true,
                                    .is_mask = is_mask,
                                    .compute = &fixture_->compute(),
                                    .scratch = &scratch.ffn[0],
                                    .board = &board_},
                                   std::move(selections));
    for (size_t t = 0; t < x.size(); ++t) scratch.normed.row(t)[0] = x[t];
    FfnCall call = fixture_->CallOf(x.size(), Phase::kGenerate);
    call.totals = &totals;
    EXPECT_TRUE(ffn->Select(call, SelectAt::kLayerInput));
    EXPECT_TRUE(ffn->Select(call, SelectAt::kFfnInput));
    EXPECT_TRUE(ffn->Run(call));
    std::vector<float> delta;
    for (size_t t = 0; t < x.size(); ++t) {
      delta.push_back(scratch.delta.row(t)[0]);
    }
    return delta;
  }

  uint64_t Candidates(size_t t) const {
    return fixture_->scratch().sets[0].named(t).words[0];
  }
  uint64_t Fired(size_t t) const {
    return fixture_->scratch().sets[0].fired(t).words[0];
  }

  model::FfnWeights weights;
  std::vector<uint32_t> order;
  bool is_mask = false;
  SparseTotals totals;

 private:
  model::Config config_;
  OwnedTensor ones_{DType::kF32, std::vector<float>(kWordNeurons, 1.0f), 1};
  OwnedTensor powers_{
      DType::kF32, std::vector<float>{1, 10, 100, 1000, 1e4f, 1e5f, 1e6f, 1e7f},
      1};
  PieceResults board_;
  std::unique_ptr<ComputeFixture> fixture_;
};

TEST(SparseFfn, ComputesTheCandidates) {
  OneWordFfn ffn;
  EXPECT_THAT(ffn.Run({2.0f, -1.0f, 1.0f}, 0b1011),
              ElementsAre(4044.0f, 0.0f, 1011.0f));
  EXPECT_EQ(ffn.Candidates(1), 0b1011u);
  EXPECT_EQ(ffn.Fired(0), 0b1011u);
  EXPECT_EQ(ffn.Fired(1), 0u);
}

TEST(SparseFfn, NoCandidateIsNothing) {
  OneWordFfn ffn;
  const OwnedTensor bias(DType::kF32, std::vector<float>{0.5f}, 1);
  ffn.weights.down_bias = bias.view();
  EXPECT_THAT(ffn.Run({2.0f}, 0), ElementsAre(0.5f));
}

TEST(SparseFfn, ManyCandidatesAreAllNeurons) {
  OneWordFfn ffn;
  EXPECT_THAT(ffn.Run({1.0f}, 0b00111111), ElementsAre(111111.0f));
  EXPECT_THAT(ffn.Run({1.0f}, 0b01111111), ElementsAre(11111111.0f));
  EXPECT_EQ(ffn.Candidates(0), 0xffu);
}

TEST(SparseFfn, AMaskHoldsHoweverManyItLeaves) {
  OneWordFfn ffn;
  ffn.is_mask = true;
  EXPECT_THAT(ffn.Run({1.0f}, 0b01111111), ElementsAre(1111111.0f));
  EXPECT_EQ(ffn.Candidates(0), 0x7fu);
  EXPECT_THAT(ffn.Run({1.0f, -1.0f}, 0xff), ElementsAre(11111111.0f, 0.0f));
}

TEST(SparseFfn, BatchesOfMoreTokensThanAGroup) {
  OneWordFfn ffn;
  std::vector<float> x(20), expected(20);
  for (size_t t = 0; t < x.size(); ++t) {
    x[t] = static_cast<float>(t);
    expected[t] = 101.0f * x[t] * x[t];
  }
  EXPECT_EQ(ffn.Run(x, 0b101), expected);
  EXPECT_EQ(ffn.Fired(19), 0b101u);
}

TEST(SparseFfn, WithoutTheTransposedDown) {
  OneWordFfn ffn;
  const OwnedTensor down(
      DType::kF32, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, kWordNeurons);
  ffn.weights.down_t = {};
  ffn.weights.down = down.view();
  EXPECT_THAT(ffn.Run({2.0f, -1.0f}, 0b1011), ElementsAre(28.0f, 0.0f));
  EXPECT_EQ(ffn.Fired(0), 0b1011u);
}

// What is added to 1e20 is lost: the order shows.
TEST(SparseFfn, TermsComeInTheOrderOfThePlaces) {
  OneWordFfn ffn;
  const OwnedTensor down_t(
      DType::kF32, std::vector<float>{1e20f, 1, -1e20f, 0, 0, 0, 0, 0}, 1);
  ffn.weights.down_t = down_t.view();
  EXPECT_THAT(ffn.Run({1.0f}, 0b111), ElementsAre(0.0f));
  ffn.order = {7, 6, 5, 4, 3, 2, 0, 1};
  EXPECT_THAT(ffn.Run({1.0f}, 0b111), ElementsAre(1.0f));
}

TEST(SparseFfn, CountsWhatRowsRead) {
  OneWordFfn ffn;
  ffn.Run({1.0f}, 0b1011);
  EXPECT_EQ(ffn.totals.num_neurons, kWordNeurons);
  EXPECT_EQ(ffn.totals.num_candidates, 3u);
  EXPECT_EQ(ffn.totals.num_open, 3u);
  EXPECT_EQ(ffn.totals.num_bytes, 1000u + 3 * 4 + 3 * 8);
  ffn.Run({-1.0f}, 0b1011);
  EXPECT_EQ(ffn.totals.num_open, 3u);
  EXPECT_EQ(ffn.totals.num_bytes, 2 * 1000u + 6 * 4 + 3 * 8);
  EXPECT_EQ(ffn.totals.num_union_candidates, 6u);
  EXPECT_EQ(ffn.totals.num_union_open, 3u);
}

// Of several rows the bytes are those of their union, over all groups.
TEST(SparseFfn, CountsWhatSeveralRowsReadOnce) {
  OneWordFfn ffn;
  std::vector<float> x(10, 1.0f);
  x[0] = -1.0f;
  ffn.Run(x, 0b1011);
  EXPECT_EQ(ffn.totals.num_neurons, 10 * kWordNeurons);
  EXPECT_EQ(ffn.totals.num_candidates, 30u);
  EXPECT_EQ(ffn.totals.num_open, 27u);
  EXPECT_EQ(ffn.totals.num_union_neurons, kWordNeurons);
  EXPECT_EQ(ffn.totals.num_union_candidates, 3u);
  EXPECT_EQ(ffn.totals.num_union_open, 3u);
  EXPECT_EQ(ffn.totals.num_bytes, 1000u + 3 * 4 + 3 * 8);
}

}  // namespace
}  // namespace thermocline::engine
