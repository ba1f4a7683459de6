#include "training/profile_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/remedy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<neuron::Profile> ProfileOf(
    const std::shared_ptr<const model::Model>& model, const std::string& text,
    int64_t chunk, engine::SessionOptions options,
    const ProgressFn& progress = {}, uint64_t max_tokens = 1u << 20) {
  auto corpus = Corpus::Create(*model, text, "text.txt",
                               {.chunk = chunk, .max_tokens = max_tokens});
  if (!corpus) return tl::unexpected(corpus.error());
  return ProfileCorpus(model, *corpus, std::move(options), progress);
}

TEST(ProfileModeTest, ThresholdsSayWhatFires) {
  model::Config config;
  EXPECT_EQ(ProfileMode(config), engine::FfnMode::kDense);
  config.thresholds = {0.1f};
  EXPECT_EQ(ProfileMode(config), engine::FfnMode::kThreshold);
}

// Sixteen chunks from all over the text come near what the training framework
// found on all of it; tests/cli_profile_test.py compares exactly.
TEST(ProfileCorpusTest, DensitiesOfTheDemoModel) {
  const auto want =
      nlohmann::json::parse(ReadTestFile("testdata/demo/reference.json"));
  const auto& shares = want["valid.txt"]["active_share_per_layer"];
  const auto model = OpenDemo();
  const auto profile =
      ProfileOf(model, ReadTestFile("testdata/demo/valid.txt"), 256,
                {.num_threads = 2, .ffn = engine::FfnMode::kDense}, {}, 4096);
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_EQ(profile->layers.size(), 6u);
  for (size_t l = 0; l < 6; ++l) {
    const neuron::LayerProfile& layer = profile->layers[l];
    EXPECT_EQ(layer.num_neurons(), 1536u);
    EXPECT_EQ(layer.num_tokens, profile->num_tokens());
    EXPECT_EQ(layer.num_pairs, layer.num_tokens / 256 * 255);
    EXPECT_NEAR(layer.density(), shares[l].get<double>(), 0.01);
    EXPECT_GT(layer.locality().value(), layer.chance_locality());
    EXPECT_LT(layer.skew(), 0.8);
  }
}

TEST(ProfileCorpusTest, TheSameForEveryNumberOfThreadsAndBatch) {
  const auto model = OpenTestModel(
      "testdata/golden-powerinfer/"
      "bamboo-f16.powerinfer.gguf");
  const std::string text =
      ReadTestFile("testdata/demo/valid.txt").substr(0, 3000);
  // The form of products is fixed, as evals do.
  const auto one = ProfileOf(
      model, text, 16, {.num_threads = 1, .ffn = engine::FfnMode::kDense});
  const auto other =
      ProfileOf(model, text, 16,
                {.num_threads = 3, .batch = 5, .ffn = engine::FfnMode::kDense});
  ASSERT_TRUE(one && other);
  EXPECT_EQ(*one, *other);
}

// Neurons of expert e are numbered from e * F on, and a token has two experts.
TEST(ProfileCorpusTest, AMixture) {
  model::OpenOptions options;
  options.overrides.ffn_activation = Activation::kRelu;
  const auto model =
      OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf", options);
  const auto profile =
      ProfileOf(model, ReadTestFile("testdata/demo/valid.txt").substr(0, 3000),
                16, {.num_threads = 1, .ffn = engine::FfnMode::kDense});
  ASSERT_TRUE(profile) << profile.error().message;
  for (const neuron::LayerProfile& layer : profile->layers) {
    EXPECT_EQ(
        std::cmp_equal(layer.num_neurons(), 8 * MaxFfnWidth(model->config())),
        true);
    EXPECT_GT(layer.density(), 0.05);
    EXPECT_LT(layer.density(), 0.25);  // two experts of eight, half of each
  }
}

// A quarter of all neurons, since a token uses two experts of eight.
TEST(ProfileCorpusTest, RefusesAMixtureWithoutSparsity) {
  const auto profile =
      ProfileOf(OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf"),
                ReadTestFile("testdata/demo/valid.txt").substr(0, 3000), 16,
                {.num_threads = 1, .ffn = engine::FfnMode::kDense});
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message,
              HasSubstr("100.0 % of the neurons of a token's experts fire"));
}

TEST(ProfileCorpusTest, RefusesAModelWithoutSparsity) {
  uint64_t most_done = 0;
  const auto profile = ProfileOf(
      OpenTestModel("testdata/models/stories260K.gguf"),
      ReadTestFile("testdata/demo/valid.txt").substr(0, 6000), 32,
      {.num_threads = 1, .ffn = engine::FfnMode::kDense},
      [&](std::string_view /*what*/, uint64_t done, uint64_t /*total*/) {
        most_done = std::max(most_done, done);
      });
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(profile.error().message,
              AllOf(HasSubstr("stories260K.gguf: has no sparsity"),
                    HasSubstr("100.0 % of the neurons fire on average "
                              "over 32 tokens"),
                    HasSubstr("silu, is never 0")));
  EXPECT_EQ(profile.error().advice.remedy, Remedy::kCalibrateForRest);
  EXPECT_EQ(most_done, 0u);  // the first chunk said it
}

// Thresholds are for activations without zeros.
TEST(CheckSparsityTest, WhatToDoDependsOnTheModel) {
  const auto demo = OpenDemo();
  EXPECT_TRUE(CheckSparsity(*demo, kMaxProfileDensity, 1));
  const Status relu = CheckSparsity(*demo, 0.95, 77);
  ASSERT_FALSE(relu);
  EXPECT_THAT(
      relu.error().message,
      AllOf(HasSubstr("95.0 % of the neurons fire on average over 77 tokens"),
            HasSubstr("although its activation, relu, has zeros"),
            ::testing::Not(HasSubstr("thresholds"))));
  EXPECT_EQ(relu.error().advice.remedy, Remedy::kDense);
  const Status mixture = CheckSparsity(
      *OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf"), 1, 77);
  ASSERT_FALSE(mixture);
  EXPECT_THAT(mixture.error().message, HasSubstr("of a token's experts"));
  EXPECT_EQ(mixture.error().advice.remedy, Remedy::kCalibrateForRest);
}

TEST(ProfileCorpusTest, ErrorsNameTheChunk) {
  const std::atomic<bool> cancel = true;
  const auto profile = ProfileOf(
      OpenDemo(), ReadTestFile("testdata/demo/valid.txt").substr(0, 6000), 32,
      {.ffn = engine::FfnMode::kDense, .cancel = &cancel});
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(profile.error().message, HasSubstr("chunk 1: "));
}

}  // namespace
}  // namespace thermocline::training
