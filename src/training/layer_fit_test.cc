#include "training/layer_fit.h"

#include <atomic>

#include "training/neuron_order.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

class FitLayerTest : public ::testing::Test {
 protected:
  FitLayerTest() {
    options_.session = {.num_threads = 2};
    options_.num_steps = 20;
    const model::Config& config = model_->config();
    neuron::ProfileBuilder builder(2, MaxFfnWidth(config));
    options_.session.ffn = engine::FfnMode::kDense;
    const Status gathered =
        RunCorpus(model_, corpus_, options_.session, "", {},
                  [&](size_t chunk_idx, const engine::FfnObservation& seen) {
                    store_.Add(chunk_idx, seen);
                    builder.Add(seen.layer_idx, seen.fired);
                  });
    EXPECT_TRUE(gathered);
    profile_ = builder.profile();
  }

  Result<LayerFile> Fit(size_t layer_idx) {
    return FitLayer(gemm_, *model_, store_, profile_.layers[layer_idx],
                    layer_idx, options_);
  }

  std::shared_ptr<const model::Model> model_ = OpenTiny();
  Corpus corpus_ = SmallCorpus(*model_, 16);
  SampleStore store_{corpus_, 256, LayerRange{0, 2}, model_->config().width,
                     NeuronsOf(model_->config())};
  neuron::Profile profile_;
  FindOptions options_;
  std::unique_ptr<os::ThreadPool> pool_ = TestPool(2);
  Gemm gemm_{pool_.get()};
};

TEST_F(FitLayerTest, WhatWasAskedFor) {
  const auto both = Fit(1);
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->trained.has_value(), both->findings.trained.rank > 0);
  EXPECT_EQ(both->free.has_value(), both->findings.free.num_bytes > 0);
  EXPECT_TRUE(both->trained || !both->findings.reason.empty());
  EXPECT_EQ(both->findings.density, profile_.layers[1].density());
  EXPECT_EQ(both->findings.ffn_bytes,
            FfnBytes(model_->weights().layers[1].ffn));
  EXPECT_TRUE(both->findings.recall_ahead.empty());
  const Samples samples = store_.train(1, 1);
  const size_t group_size = OrderGroupSize(samples.ffn_width());
  EXPECT_EQ(both->order,
            *OrderTogether(samples, profile_.layers[1].counts, group_size));
  EXPECT_EQ(both->findings.fired_per_group,
            FiredPerGroup(store_.held_out(1, 1), both->order, group_size));
  EXPECT_GE(both->findings.fired_per_group_as_they_lie, 1.0);

  options_.predictors = false;
  const auto free = Fit(1);
  ASSERT_TRUE(free);
  EXPECT_FALSE(free->trained);
  EXPECT_EQ(free->free, both->free);
  options_.predictors = true;
  options_.training_free = false;
  const auto trained = Fit(1);
  ASSERT_TRUE(trained);
  EXPECT_FALSE(trained->free);
  EXPECT_EQ(trained->trained, both->trained);
}

// The first layer has none before it and reads its own input.
TEST_F(FitLayerTest, TheInputOfTheLayerBefore) {
  options_.training_free = false;
  const auto own_first = Fit(0);
  const auto own_second = Fit(1);
  options_.lookahead = 1;
  const auto first = Fit(0);
  const auto second = Fit(1);
  ASSERT_TRUE(own_first && own_second && first && second);
  ASSERT_TRUE(first->trained);
  EXPECT_EQ(*first, *own_first);
  EXPECT_NE(second->trained, own_second->trained);
}

TEST_F(FitLayerTest, ReportsOnLookaheads) {
  options_.training_free = false;
  options_.reports_ahead = true;
  for (const size_t layer_idx : {0u, 1u}) {
    const auto layer = Fit(layer_idx);
    ASSERT_TRUE(layer);
    ASSERT_TRUE(layer->trained) << layer->findings.reason;
    EXPECT_EQ(layer->findings.recall_ahead.size(), layer_idx + 1);
  }
}

TEST_F(FitLayerTest, CancelledAndProgress) {
  std::atomic<bool> cancel = false;
  options_.session.cancel = &cancel;
  std::string seen;
  options_.progress = [&](std::string_view what, uint64_t done,
                          uint64_t total) {
    seen = what;
    EXPECT_LE(done, total);
    cancel = true;
  };
  const auto layer = Fit(1);
  ASSERT_FALSE(layer);
  EXPECT_EQ(layer.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(seen, "layer 2 of 2");
}

TEST(FfnBytesTest, OfAllMatrices) {
  EXPECT_EQ(FfnBytes(OpenDemo()->weights().layers[0].ffn), 3u * 256 * 1536 * 2);
  // Two matrices, no gate.
  const auto opt =
      OpenTestModel("testdata/golden-powerinfer/opt-f16.powerinfer.gguf");
  const model::Config& config = opt->config();
  EXPECT_EQ(FfnBytes(opt->weights().layers[0].ffn),
            2 * config.width * MaxFfnWidth(config) * 2);
}

}  // namespace
}  // namespace thermocline::training
