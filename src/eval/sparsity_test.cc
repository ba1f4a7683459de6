#include "eval/sparsity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/testing.h"
#include "model/test_prepared.h"

namespace thermocline::eval {
namespace {

using engine::FfnMode;
using ::testing::HasSubstr;

std::shared_ptr<const model::Model> OpenWithRelu(const std::string& name) {
  model::OpenOptions options;
  options.overrides.ffn_activation = Activation::kRelu;
  auto model =
      model::Model::Open(std::string(TC_TEST_DATA) + "/" + name, options);
  EXPECT_TRUE(model.has_value()) << MessageOf(model);
  return *model;
}

engine::SessionOptions Options(FfnMode mode) {
  return {.context = 16,
          .num_threads = 1,
          .k_type = DType::kF32,
          .v_type = DType::kF32,
          .ffn = mode};
}

// Two chunks of sixteen random tokens.
Sparsity Measure(
    const std::shared_ptr<const model::Model>& model, FfnMode mode,
    engine::PredictorChoice predictor = engine::PredictorChoice::kAuto) {
  SparsityMeter meter(model);
  engine::SessionOptions options = Options(mode);
  options.predictor = predictor;
  options.observer = meter.observer();
  const auto session = engine::Session::Create(model, options);
  EXPECT_TRUE(session.has_value()) << MessageOf(session);
  const auto dense = engine::Session::Create(model, Options(FfnMode::kDense));
  EXPECT_TRUE(dense.has_value()) << MessageOf(dense);
  EXPECT_TRUE(meter.Begin(**session));
  const auto tokens = RandomTokens(40, model->config().vocab_size);
  auto sparsity = MeasureSparsity(**session, **dense, meter, tokens, {16}, {});
  EXPECT_TRUE(sparsity.has_value()) << MessageOf(sparsity);
  return *std::move(sparsity);
}

// Every position but the last of each chunk, which predicts nothing.
constexpr uint64_t kPositions = 2 * 15;

TEST(MeasureSparsityTest, Exact) {
  const auto model = OpenWithRelu("golden/llama-gqa-f16.gguf");
  const Sparsity sparsity = Measure(model, FfnMode::kExact);
  EXPECT_EQ(sparsity.mode, "exact");
  EXPECT_EQ(sparsity.predictor, "none");
  ASSERT_EQ(sparsity.layers.size(), 2u);
  const size_t f = MaxFfnWidth(model->config());
  const size_t d = model->config().width;
  for (const SparsityCounts& layer : sparsity.layers) {
    EXPECT_EQ(layer.num_tokens, kPositions);
    EXPECT_EQ(layer.candidates(), 1.0);
    EXPECT_EQ(layer.recall(), 1.0);
    EXPECT_EQ(layer.precision(), layer.density());
    EXPECT_GT(layer.density(), 0.3);
    EXPECT_LT(layer.density(), 0.7);
    // F16: all gates, the up rows of those that fire, and a plain file's down.
    EXPECT_EQ(layer.num_dense_bytes, kPositions * 3 * f * d * 2);
    EXPECT_EQ(layer.num_bytes, (kPositions * 2 * f + layer.num_active) * d * 2);
    EXPECT_EQ(layer.num_predictor_bytes, 0u);
  }
  EXPECT_EQ(sparsity.total.num_tokens, kPositions);
  EXPECT_EQ(sparsity.total.num_bytes,
            sparsity.layers[0].num_bytes + sparsity.layers[1].num_bytes);
  EXPECT_LT(sparsity.divergence.kl.value, 1e-9);
  EXPECT_EQ(sparsity.divergence.same_top.value, 1.0);
}

// Candidates and what fires, counted again from the sessions themselves.
TEST(MeasureSparsityTest, Fast) {
  const auto model = OpenModel("golden-powerinfer/llama-f16.powerinfer.gguf");
  const Sparsity sparsity = Measure(model, FfnMode::kFast);
  EXPECT_EQ(sparsity.predictor, "trained");
  std::vector<uint64_t> num_candidates(2), num_fired(2);
  engine::SessionOptions options = Options(FfnMode::kFast);
  options.observer = [&](const engine::FfnObservation& seen) {
    num_candidates[seen.layer_idx] += seen.candidates.size();
    num_fired[seen.layer_idx] += seen.fired.size();
  };
  const auto again = engine::Session::Create(model, options);
  ASSERT_TRUE(again.has_value());
  auto tokens = RandomTokens(40, model->config().vocab_size);
  for (const size_t begin : {0u, 16u}) {
    (*again)->Truncate(0);
    auto chunk = std::span(tokens).subspan(begin, 15);
    const text::Vocab& vocab = model->tokenizer()->vocab();
    if (vocab.add_bos) chunk.front() = vocab.bos.value();
    ASSERT_TRUE((*again)->Prompt(chunk, engine::LogitsOf::kNone, {}));
  }
  for (size_t l = 0; l < 2; ++l) {
    const SparsityCounts& layer = sparsity.layers[l];
    EXPECT_EQ(layer.num_candidates, num_candidates[l]);
    EXPECT_EQ(layer.num_found, num_fired[l]);
    EXPECT_GT(layer.num_active, layer.num_found);
    EXPECT_GT(layer.num_predictor_bytes, 0u);
    EXPECT_GT(layer.num_bytes, layer.num_predictor_bytes);
  }
  EXPECT_LT(sparsity.total.recall(), 1.0);
  EXPECT_GT(sparsity.divergence.kl.value, 0.0);
}

// A layer without signs in a file that has some reads none.
TEST(MeasureSparsityTest, SignsOfOneLayerAlone) {
  model::OpenOptions options;
  options.overrides.ffn_activation = Activation::kRelu;
  options.bundle_at_load = true;
  const auto source = model::Model::Open(
      std::string(TC_TEST_DATA) + "/golden/llama-gqa-f16.gguf", options);
  ASSERT_TRUE(source.has_value()) << MessageOf(source);
  const model::Config& config = (*source)->config();
  const size_t num_neurons = MaxFfnWidth(config);
  const uint64_t sign_bytes = ((config.width + 63) / 64) * 8;
  const std::string path =
      ::testing::TempDir() + "/tc_sparsity_signs_of_one_layer.gguf";
  const Status written = model::WritePreparedFile(
      **source,
      {{model::prepared::kMaxDifferences, gguf::ValueType::kArray,
        gguf::Array{gguf::ValueType::kI64, std::vector<int64_t>{1, 1}}}},
      {{std::string("blk.0.") + model::prepared::kFreeSigns,
        DType::kI8,
        {{sign_bytes, num_neurons, 1, 1}, 2},
        std::vector<std::byte>(num_neurons * sign_bytes)}},
      path);
  ASSERT_TRUE(written.has_value()) << MessageOf(written);
  const auto model = model::Model::Open(path, options);
  std::filesystem::remove(path);
  ASSERT_TRUE(model.has_value()) << MessageOf(model);
  const Sparsity sparsity =
      Measure(*model, FfnMode::kFast, engine::PredictorChoice::kTrainingFree);
  EXPECT_EQ(sparsity.predictor, "training-free");
  ASSERT_EQ(sparsity.layers.size(), 2u);
  EXPECT_EQ(sparsity.layers[0].num_predictor_bytes,
            kPositions * num_neurons * sign_bytes);
  EXPECT_LT(sparsity.layers[0].candidates(), 1.0);
  EXPECT_EQ(sparsity.layers[1].num_predictor_bytes, 0u);
  EXPECT_EQ(sparsity.layers[1].candidates(), 1.0);
}

TEST(MeasureSparsityTest, DenseAgainstItself) {
  const auto model = OpenWithRelu("golden/falcon-mqa-f16.gguf");
  const Sparsity sparsity = Measure(model, FfnMode::kDense);
  EXPECT_EQ(sparsity.total.recall(), 1.0);
  EXPECT_EQ(sparsity.total.bytes(), 1.0);
  EXPECT_EQ(sparsity.divergence.kl.value, 0.0);
}

// Two experts of eight, all of whose gates are candidates.
TEST(MeasureSparsityTest, AMixture) {
  const auto model = OpenWithRelu("golden/mixtral-8x2-f16.gguf");
  const Sparsity sparsity = Measure(model, FfnMode::kExact);
  EXPECT_EQ(sparsity.total.candidates(), 0.25);
  EXPECT_EQ(sparsity.total.recall(), 1.0);
  EXPECT_LT(sparsity.total.density(), 0.2);
  EXPECT_LT(sparsity.total.bytes(), 1.0);
}

TEST(SparsityCountsTest, SharesOfNothing) {
  const SparsityCounts none;
  for (const auto& share : {none.density(), none.candidates(), none.excess(),
                            none.recall(), none.precision(), none.bytes()}) {
    EXPECT_FALSE(share.has_value());
  }
}

Sparsity Sample() {
  Sparsity sparsity = {.mode = "fast", .predictor = "trained"};
  sparsity.layers = {{.num_tokens = 2,
                      .num_neurons = 200,
                      .num_active = 20,
                      .num_candidates = 30,
                      .num_found = 19,
                      .num_bytes = 4096,
                      .num_predictor_bytes = 1024,
                      .num_dense_bytes = 8192},
                     {.num_tokens = 2, .num_neurons = 200}};
  sparsity.total.num_tokens = 2;
  for (const SparsityCounts& layer : sparsity.layers) {
    sparsity.total.AddLayer(layer);
  }
  sparsity.divergence.same_top = MakeShare(9, 10);
  return sparsity;
}

TEST(FormatSparsityTest, Lines) {
  const std::string text = FormatSparsity(Sample());
  EXPECT_THAT(text, HasSubstr("fast (trained predictors) at 2 positions"));
  EXPECT_THAT(text, HasSubstr("    0      10.00         15.00        1.50     "
                              "95.00        63.33        2.0        50.0\n"));
  EXPECT_THAT(text, HasSubstr("    1       0.00          0.00           -     "
                              "    -            -        0.0           -\n"));
  EXPECT_THAT(text, HasSubstr("  all       5.00          7.50        1.50"));
  EXPECT_THAT(text, HasSubstr("same top token:  90.000"));
}

TEST(FormatSparsityTest, Json) {
  const auto json = nlohmann::json::parse(FormatSparsityJson(Sample()));
  EXPECT_EQ(json["mode"], "fast");
  EXPECT_EQ(json["positions"], 2);
  EXPECT_EQ(json["recall"], 0.95);
  EXPECT_EQ(json["layers"][0]["candidates_per_active"], 1.5);
  EXPECT_EQ(json["layers"][0]["bytes_per_token"], 2048.0);
  EXPECT_EQ(json["layers"][0]["predictor_bytes_per_token"], 512.0);
  EXPECT_EQ(json["layers"][0]["bytes_share"], 0.5);
  EXPECT_TRUE(json["layers"][1]["recall"].is_null());
  EXPECT_EQ(json["divergence"]["same_top"], 0.9);
}

}  // namespace
}  // namespace thermocline::eval
