#include "training/threshold_search.h"

#include <cmath>
#include <span>

#include "base/remedy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

TEST(FindDensityTest, TheLeastThatIsCheapEnough) {
  std::vector<double> asked;
  const auto choice = FindDensity(0.01, 10.0, [&](double density) {
    asked.push_back(density);
    return Result<double>(10.0 + (density < 0.4 ? 1.0 : 0.05));
  });
  ASSERT_TRUE(choice);
  EXPECT_NEAR(choice->density, 0.4, 1.0 / 128);
  EXPECT_GE(choice->density, 0.4);
  EXPECT_EQ(choice->perplexity, 10.05);
  EXPECT_EQ(asked.size(), 7u);
}

TEST(FindDensityTest, WhatIsInfiniteCostsTooMuch) {
  const auto choice = FindDensity(0.01, 10.0, [](double density) {
    return Result<double>(density < 0.25 ? HUGE_VAL : 10.0);
  });
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->density, 0.25);
  EXPECT_EQ(choice->perplexity, 10.0);
}

// All that a cost of 0 allows.
TEST(FindDensityTest, WhatCostsNothingIsFree) {
  const auto choice = FindDensity(0.0, 10.0, [](double density) {
    return Result<double>(density < 0.25 ? 10.001 : 10.0);
  });
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->density, 0.25);
}

TEST(FindDensityTest, NoneAndErrors) {
  const auto none =
      FindDensity(0.0, 10.0, [](double) { return Result<double>(11.0); });
  ASSERT_TRUE(none);
  EXPECT_EQ(none->density, 1.0);
  EXPECT_EQ(none->perplexity, none->dense_perplexity);
  const auto failed = FindDensity(0.0, 10.0, [](double) -> Result<double> {
    return Fail(ErrorCode::kCancelled, "stop");
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "stop");
}

// A SiLU model with a vocabulary: thresholds of 0 change nothing, very large
// ones shut every gate.
TEST(MeasurePerplexityTest, ThresholdsReplaceTheModelsOwn) {
  const auto model = OpenTestModel("testdata/models/stories260K.gguf");
  const auto corpus =
      Corpus::Create(*model, ReadTestFile("testdata/demo/valid.txt"), "text",
                     {.chunk = 16, .max_tokens = 256});
  ASSERT_TRUE(corpus);
  const engine::SessionOptions options = {.num_threads = 2};
  const size_t num_layers = model->config().num_layers;
  const auto at = [&](const std::vector<float>& thresholds) {
    const auto value =
        MeasurePerplexity(model, *corpus, 2, options, thresholds);
    EXPECT_TRUE(value) << value.error().message;
    return value.value_or(0.0);
  };
  const double dense = at({});
  EXPECT_GT(dense, 1.0);
  EXPECT_NEAR(at(std::vector<float>(num_layers, 0.0f)) / dense, 1.0, 1e-3);
  EXPECT_GT(at(std::vector<float>(num_layers, 1e6f)), 1.05 * dense);
}

// Gates that are all kept are no cost, whatever flags the model was opened
// with.
TEST(MeasurePerplexityTest, TheModelAsItWasOpened) {
  const std::string path = "testdata/models/stories260K.gguf";
  const auto silu = OpenTestModel(path);
  const auto gelu =
      OpenTestModel(path, {.overrides = {.ffn_activation = Activation::kGelu}});
  const Corpus corpus = SmallCorpus(*silu, 16);
  const auto measure = [&](const auto& model, float threshold) {
    const std::vector<float> thresholds(model->config().num_layers, threshold);
    const auto value =
        MeasurePerplexity(model, corpus, 2, {.num_threads = 2},
                          threshold < 0 ? std::vector<float>() : thresholds);
    EXPECT_TRUE(value) << value.error().message;
    return value.value_or(0.0);
  };
  const double dense = measure(gelu, -1.0f);
  EXPECT_NEAR(measure(gelu, 0.0f) / dense, 1.0, 1e-3);
  EXPECT_GT(std::abs(measure(silu, -1.0f) / dense - 1.0), 0.01);
}

// More positions than logits are held of at once, in as many pieces as it
// takes: the products are of one kind.
TEST(MeasurePerplexityTest, LongChunks) {
  const auto model = OpenTestModel("testdata/models/stories260K.gguf");
  const std::string text = ReadTestFile("testdata/demo/valid.txt");
  const auto corpus =
      Corpus::Create(*model, text, "text", {.chunk = 300, .max_tokens = 4800});
  ASSERT_TRUE(corpus) << corpus.error().message;
  // Nobody waits for a prompt.
  const auto no_progress = [](std::string_view what, uint64_t, uint64_t) {
    ADD_FAILURE() << what;
  };
  const auto value = MeasurePerplexity(
      model, *corpus, 1, {.num_threads = 2, .progress = no_progress}, {});
  ASSERT_TRUE(value) << value.error().message;
  // The same positions in one piece.
  const auto session =
      engine::Session::Create(model, {.context = 300, .num_threads = 2});
  ASSERT_TRUE(session);
  const size_t vocab_size = model->config().vocab_size;
  const auto chunk = corpus->chunk(7);
  std::vector<float> logits(299 * vocab_size);
  ASSERT_TRUE(
      (*session)->Prompt(chunk.first(299), engine::LogitsOf::kAll, logits));
  double sum = 0;
  for (size_t i = 150; i < 299; ++i) {
    const auto row = std::span(logits).subspan(i * vocab_size, vocab_size);
    double all = 0;
    for (const float logit : row) all += std::exp(double{logit});
    sum += std::log(all) - double{row[static_cast<size_t>(chunk[i + 1])]};
  }
  EXPECT_NEAR(*value, std::exp(sum / 149), 1e-3 * *value);
}

TEST(MeasurePerplexityTest, ChunksThatAreTooShort) {
  const auto model = OpenTestModel("testdata/models/stories260K.gguf");
  for (const int64_t chunk : {1, 2, 3}) {
    const auto value = MeasurePerplexity(model, SmallCorpus(*model, chunk), 2,
                                         {.num_threads = 1}, {});
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(value.error().advice.remedy, Remedy::kContext);
    EXPECT_EQ(value.error().advice.value, 4);
  }
  EXPECT_TRUE(MeasurePerplexity(model, SmallCorpus(*model, 4), 2,
                                {.num_threads = 1}, {}));
}

}  // namespace
}  // namespace thermocline::training
