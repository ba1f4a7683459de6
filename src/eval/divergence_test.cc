#include "eval/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

using ::testing::HasSubstr;
using text::TokenId;

// Probabilities [T][V] of one chunk that starts with BOS.
std::vector<std::vector<double>> Softmax(engine::Session& session,
                                         std::vector<TokenId> chunk) {
  const size_t vocab_size = session.model().config().vocab_size;
  chunk.front() = session.model().tokenizer()->vocab().bos.value();
  std::vector<float> logits(chunk.size() * vocab_size);
  session.Truncate(0);
  EXPECT_TRUE(session.Prompt(chunk, engine::LogitsOf::kAll, logits));
  session.Truncate(0);
  std::vector<std::vector<double>> rows;
  for (size_t t = 0; t < chunk.size(); ++t) {
    std::vector<double> row;
    double sum = 0.0;
    for (size_t i = 0; i < vocab_size; ++i) {
      row.push_back(std::exp(static_cast<double>(logits[t * vocab_size + i])));
      sum += row.back();
    }
    for (double& p : row) p /= sum;
    rows.push_back(row);
  }
  return rows;
}

class MeasureDivergenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto f16 = OpenModel("golden/llama-gqa-f16.gguf");
    const auto q4 = OpenModel("golden/llama-gqa-Q4_0.gguf");
    ASSERT_TRUE(f16 != nullptr && q4 != nullptr);
    tokens_ = RandomTokens(50, f16->config().vocab_size);
    f16_ = OpenSession(f16, 16);
    f16_threads_ = OpenSession(f16, 16, /*num_threads=*/3);
    q4_ = OpenSession(q4, 16);
    ASSERT_TRUE(f16_ != nullptr && f16_threads_ != nullptr && q4_ != nullptr);
  }

  std::vector<TokenId> tokens_;
  std::unique_ptr<engine::Session> f16_, f16_threads_, q4_;
};

TEST_F(MeasureDivergenceTest, ExactlyZeroFromItself) {
  const auto got = MeasureDivergence(*f16_, *f16_threads_, tokens_, {16}, {});
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(got->kl.value, 0.0);
  EXPECT_EQ(got->kl.error, 0.0);
  EXPECT_EQ(got->kl_spread.max, 0.0);
  EXPECT_EQ(got->delta_p.value, 0.0);
  EXPECT_EQ(got->delta_p_rms, 0.0);
  EXPECT_EQ(got->ratio.value, 1.0);
  EXPECT_EQ(got->log_ratio.value, 0.0);
  EXPECT_EQ(got->same_top.value, 1.0);
  EXPECT_EQ(got->perplexity.value, got->base_perplexity.value);
  EXPECT_EQ(got->num_chunks, 3);
  EXPECT_EQ(got->num_predictions, 3 * 7);
}

// Against sums over probabilities, without any logarithm of a sum.
TEST_F(MeasureDivergenceTest, FollowsTheDefinition) {
  const auto got = MeasureDivergence(*q4_, *f16_, tokens_, {16}, {});
  ASSERT_TRUE(got.has_value()) << got.error().message;
  Moments kl, delta_p, log_ratio, nll, base_nll;
  double max_kl = 0.0;
  int64_t num_same = 0;
  for (size_t c = 0; c < 3; ++c) {
    const auto at = tokens_.begin() + static_cast<ptrdiff_t>(16 * c);
    const auto q = Softmax(*q4_, {at, at + 16});
    const auto p = Softmax(*f16_, {at, at + 16});
    for (size_t t = 8; t < 15; ++t) {
      double sum = 0.0;
      for (size_t i = 0; i < p[t].size(); ++i) {
        sum += p[t][i] * std::log(p[t][i] / q[t][i]);
      }
      kl.Add(sum);
      max_kl = std::max(max_kl, sum);
      const auto target = static_cast<size_t>(tokens_[16 * c + t + 1]);
      delta_p.Add(q[t][target] - p[t][target]);
      nll.Add(-std::log(q[t][target]));
      base_nll.Add(-std::log(p[t][target]));
      log_ratio.Add(std::log(p[t][target] / q[t][target]));
      num_same += std::ranges::max_element(p[t]) - p[t].begin() ==
                  std::ranges::max_element(q[t]) - q[t].begin();
    }
  }
  EXPECT_GT(got->kl.value, 1e-6);
  EXPECT_NEAR(got->kl.value, kl.mean(), 1e-12);
  EXPECT_NEAR(got->kl.error.value(), kl.error().value(), 1e-12);
  EXPECT_NEAR(got->kl_spread.max, max_kl, 1e-12);
  EXPECT_NEAR(got->delta_p.value, delta_p.mean(), 1e-12);
  EXPECT_NEAR(got->delta_p_rms, std::sqrt(delta_p.mean_square()), 1e-12);
  EXPECT_NEAR(got->log_ratio.value, log_ratio.mean(), 1e-12);
  EXPECT_NEAR(got->log_ratio.error.value(), log_ratio.error().value(), 1e-12);
  EXPECT_NEAR(got->ratio.value, std::exp(log_ratio.mean()), 1e-12);
  EXPECT_NEAR(got->perplexity.value, std::exp(nll.mean()), 1e-8);
  EXPECT_NEAR(got->base_perplexity.value, std::exp(base_nll.mean()), 1e-8);
  EXPECT_EQ(got->same_top.count, num_same);
}

// The divergence is not symmetric, but its parts change places.
TEST_F(MeasureDivergenceTest, TheBaseIsTheSecond) {
  const auto one = MeasureDivergence(*q4_, *f16_, tokens_, {16}, {});
  const auto other = MeasureDivergence(*f16_, *q4_, tokens_, {16}, {});
  ASSERT_TRUE(one.has_value() && other.has_value());
  EXPECT_EQ(one->perplexity.value, other->base_perplexity.value);
  EXPECT_NEAR(one->log_ratio.value, -other->log_ratio.value, 1e-12);
  EXPECT_NE(one->kl.value, other->kl.value);
}

TEST_F(MeasureDivergenceTest, RefusesOtherVocabularies) {
  const auto stories = OpenModel("models/stories260K.gguf");
  ASSERT_NE(stories, nullptr);
  const auto session = OpenSession(stories, 16);
  ASSERT_NE(session, nullptr);
  EXPECT_THAT(
      MessageOf(MeasureDivergence(*f16_, *session, tokens_, {16}, {})),
      ::testing::AllOf(HasSubstr("llama-gqa-f16.gguf"),
                       HasSubstr("stories260K.gguf"),
                       HasSubstr("different vocabularies: 320 and 512")));
}

TEST_F(MeasureDivergenceTest, RefusesAnotherBos) {
  const std::string path = ::testing::TempDir() + "other_bos.gguf";
  const auto message = [&](const std::string& key, char value) {
    std::ifstream in(f16_->model().file().path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const size_t at = bytes.find(key);
    if (at == std::string::npos) return "no " + key;
    bytes[at + key.size() + sizeof(uint32_t)] = value;  // behind its type
    std::ofstream(path, std::ios::binary) << bytes;
    const auto other = model::Model::Open(path);
    if (!other.has_value()) return other.error().message;
    return MessageOf(CheckSameVocabulary(f16_->model(), **other));
  };
  EXPECT_THAT(message("tokenizer.ggml.bos_token_id", 2),
              ::testing::EndsWith("other_bos.gguf cannot be compared on one "
                                  "text: the one begins it with BOS 1, the "
                                  "other with BOS 2"));
  EXPECT_EQ(message("tokenizer.ggml.bos_token_id", 1), "");
  std::filesystem::remove(path);
}

TEST_F(MeasureDivergenceTest, ErrorsSayWhichOfTheTwo) {
  const std::atomic<bool> cancel = true;
  const auto stopped =
      engine::Session::Create(OpenModel("golden/llama-gqa-Q4_0.gguf"),
                              {.context = 16, .cancel = &cancel});
  ASSERT_TRUE(stopped.has_value());
  EXPECT_THAT(MessageOf(MeasureDivergence(*f16_, **stopped, tokens_, {16}, {})),
              ::testing::ContainsRegex("chunk 1: .*Q4_0.gguf \\(dense\\): "));
}

TEST(FormatDivergenceTest, LinesAndJson) {
  const Divergence divergence = {
      .chunk = 256,
      .num_chunks = 4,
      .num_predictions = 508,
      .perplexity = {6.5, 0.25},
      .base_perplexity = {6.25, 0.125},
      .log_ratio = {0.039221, 0.001},
      .ratio = {1.04, 0.00104},
      .kl = {0.0125, 0.0005},
      .kl_spread = {0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06},
      .delta_p = {-0.001, 0.0005},
      .delta_p_rms = 0.02,
      .same_top = MakeShare(500, 508)};
  const std::string text = FormatDivergence(divergence);
  EXPECT_THAT(text, HasSubstr("perplexity:      6.5000 +/- 0.2500\n"));
  EXPECT_THAT(text, HasSubstr("mean KLD:        0.0125 +/- 0.0005\n"));
  EXPECT_THAT(text, HasSubstr("90 % 0.02, 95 % 0.03, 99 % 0.04, 99.9 % 0.05, "
                              "max 0.06\n"));
  EXPECT_THAT(text, HasSubstr("-0.1000 +/- 0.0500 %, RMS 2.0000 %\n"));
  EXPECT_THAT(text, HasSubstr("predictions:     508 (4 chunks of 256)"));
  const auto json = nlohmann::json::parse(FormatDivergenceJson(divergence));
  EXPECT_EQ(json["kl"], 0.0125);
  EXPECT_EQ(json["kl_p999"], 0.05);
  EXPECT_EQ(json["base_perplexity_error"], 0.125);
  EXPECT_EQ(json["same_top_count"], 500);
}

TEST_F(MeasureDivergenceTest, OnePredictionHasNoErrors) {
  tokens_.resize(8);
  const auto got = MeasureDivergence(*q4_, *f16_, tokens_, {4, 1}, {});
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(got->num_predictions, 1);
  const std::string text = FormatDivergence(*got);
  for (const char* line : {"perplexity:  ", "base perplexity:", "ratio:   ",
                           "ln ratio:", "mean KLD:", "mean delta p:"}) {
    EXPECT_THAT(text, ::testing::ContainsRegex(std::string(line) +
                                               " *[-0-9.e]+ \\+/- -[ \n]"));
  }
  EXPECT_THAT(text, HasSubstr("predictions:     1 (1 chunk of 4)"));
  const auto json = nlohmann::json::parse(FormatDivergenceJson(*got));
  for (const char* key :
       {"perplexity_error", "base_perplexity_error", "ratio_error",
        "log_ratio_error", "kl_error", "delta_p_error"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
}

}  // namespace
}  // namespace thermocline::eval
