#include "eval/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

// The definition, computed another way: all logits of each chunk at once.
Perplexity Reference(engine::Session& session,
                     const std::vector<text::TokenId>& tokens, size_t context,
                     std::optional<text::TokenId> bos) {
  const size_t vocab_size = session.model().config().vocab_size;
  std::vector<double> nlls;
  const size_t num_chunks = tokens.size() / context;
  for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
    std::vector<text::TokenId> ids(
        tokens.begin() + static_cast<ptrdiff_t>(chunk * context),
        tokens.begin() + static_cast<ptrdiff_t>((chunk + 1) * context));
    if (bos.has_value()) ids[0] = *bos;
    std::vector<float> logits(context * vocab_size);
    session.Truncate(0);
    EXPECT_TRUE(
        session.Prompt(ids, engine::LogitsOf::kAll, logits).has_value());
    for (size_t p = context / 2; p + 1 < context; ++p) {
      double sum = 0.0;
      for (size_t v = 0; v < vocab_size; ++v) {
        sum += std::exp(static_cast<double>(logits[p * vocab_size + v]));
      }
      nlls.push_back(
          std::log(sum) -
          static_cast<double>(
              logits[p * vocab_size + static_cast<size_t>(ids[p + 1])]));
    }
  }
  double mean = 0.0;
  for (const double nll : nlls) mean += nll;
  mean /= static_cast<double>(nlls.size());
  double variance = 0.0;
  for (const double nll : nlls) variance += (nll - mean) * (nll - mean);
  const double count = static_cast<double>(nlls.size());
  variance /= count;
  return {.value = std::exp(mean),
          .error = std::exp(mean) * std::sqrt(variance / (count - 1.0)),
          .mean_nll = mean,
          .num_chunks = static_cast<int64_t>(num_chunks),
          .num_predictions = static_cast<int64_t>(nlls.size())};
}

TEST(MeasurePerplexityTest, FollowsTheDefinitionAtOddChunks) {
  const auto model = OpenModel("golden/llama-gqa-f16.gguf");
  ASSERT_NE(model, nullptr);
  const auto session = OpenSession(model, 32);
  ASSERT_NE(session, nullptr);
  const auto tokens = RandomTokens(70, model->config().vocab_size);
  for (const int64_t context : {4, 5, 17, 32}) {
    const auto got = MeasurePerplexity(*session, tokens, {context}, {});
    ASSERT_TRUE(got.has_value()) << got.error().message;
    EXPECT_EQ(session->position(), 0);
    const Perplexity want =
        Reference(*session, tokens, static_cast<size_t>(context),
                  model->tokenizer()->vocab().bos);
    EXPECT_NEAR(got->value, want.value, 1e-5 * want.value);
    EXPECT_NEAR(got->error.value(), want.error.value(), 1e-4 * *want.error);
    EXPECT_NEAR(got->mean_nll, want.mean_nll, 1e-5);
    EXPECT_EQ(got->context, context);
    EXPECT_EQ(got->num_chunks, want.num_chunks);
    EXPECT_EQ(got->num_predictions, want.num_predictions);
    session->Truncate(0);
  }
}

TEST(MeasurePerplexityTest, PutsBosInFrontOfEveryChunk) {
  const auto model = OpenModel("models/stories260K.gguf");
  ASSERT_NE(model, nullptr);
  ASSERT_NE(model->tokenizer(), nullptr);
  ASSERT_TRUE(model->tokenizer()->vocab().add_bos);
  const auto session = OpenSession(model, 64);
  ASSERT_NE(session, nullptr);
  const auto tokens = RandomTokens(200, model->config().vocab_size);
  const auto got = MeasurePerplexity(*session, tokens, {64}, {});
  ASSERT_TRUE(got.has_value()) << got.error().message;
  const Perplexity want =
      Reference(*session, tokens, 64, model->tokenizer()->vocab().bos);
  EXPECT_NEAR(got->value, want.value, 1e-5 * want.value);
}

TEST(MeasurePerplexityTest, ReportsProgressUpToTheEnd) {
  const auto model = OpenModel("golden/llama-gqa-f16.gguf");
  ASSERT_NE(model, nullptr);
  const auto session = OpenSession(model, 16);
  ASSERT_NE(session, nullptr);
  std::vector<uint64_t> done;
  const auto tokens = RandomTokens(48, model->config().vocab_size);
  const auto result = MeasurePerplexity(
      *session, tokens, {16},
      [&](std::string_view, uint64_t num_done, uint64_t num_total) {
        EXPECT_EQ(num_total, 3u);
        done.push_back(num_done);
      });
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(done, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(MeasurePerplexityTest, RefusesWhatCannotBeMeasured) {
  const auto model = OpenModel("golden/llama-gqa-f16.gguf");
  ASSERT_NE(model, nullptr);
  const auto session = OpenSession(model, 16);
  ASSERT_NE(session, nullptr);
  auto tokens = RandomTokens(31, model->config().vocab_size);
  const auto code = [&](int64_t context) {
    const auto result = MeasurePerplexity(*session, tokens, {context}, {});
    return result.has_value() ? std::string() : result.error().message;
  };
  EXPECT_THAT(code(16), ::testing::HasSubstr("31 tokens"));
  EXPECT_THAT(code(3), ::testing::HasSubstr("too short"));
  EXPECT_THAT(code(-1), ::testing::HasSubstr("too short"));
  EXPECT_THAT(code(17), ::testing::HasSubstr("context of 16"));
  tokens[20] = static_cast<text::TokenId>(model->config().vocab_size);
  EXPECT_THAT(code(8), ::testing::HasSubstr("outside the vocabulary"));
}

TEST(MeasurePerplexityTest, StopsWhenCancelled) {
  const auto model = OpenModel("golden/llama-gqa-f16.gguf");
  ASSERT_NE(model, nullptr);
  const std::atomic<bool> cancel = true;
  const auto session = OpenSession(model, 16, 1, &cancel);
  ASSERT_NE(session, nullptr);
  const auto result = MeasurePerplexity(
      *session, RandomTokens(32, model->config().vocab_size), {16}, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
}

TEST(FormatPerplexityTest, LineAndJson) {
  const Perplexity perplexity = {.value = 12.826,
                                 .error = 0.1234,
                                 .mean_nll = 2.5514738,
                                 .context = 256,
                                 .num_chunks = 133,
                                 .num_predictions = 16891};
  EXPECT_EQ(FormatPerplexity(perplexity),
            "perplexity: 12.8260 +/- 0.1234 (133 chunks of 256, 16891 "
            "predictions, mean nll 2.551474)");
  const auto json = nlohmann::json::parse(FormatPerplexityJson(perplexity));
  EXPECT_EQ(json["perplexity"], 12.826);
  EXPECT_EQ(json["error"], 0.1234);
  EXPECT_EQ(json["chunks"], 133);
  EXPECT_EQ(json["predictions"], 16891);
  EXPECT_EQ(json["context"], 256);
}

// Not 0, which would say that the value is exact.
TEST(FormatPerplexityTest, OnePredictionHasNoError) {
  const Perplexity perplexity = {.value = 12.826,
                                 .mean_nll = 2.5514738,
                                 .context = 4,
                                 .num_chunks = 1,
                                 .num_predictions = 1};
  EXPECT_EQ(FormatPerplexity(perplexity),
            "perplexity: 12.8260 +/- - (1 chunk of 4, 1 prediction, mean nll "
            "2.551474)");
  const auto json = nlohmann::json::parse(FormatPerplexityJson(perplexity));
  EXPECT_TRUE(json["error"].is_null());
}

}  // namespace
}  // namespace thermocline::eval
