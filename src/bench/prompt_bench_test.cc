#include "bench/prompt_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const model::Model> OpenInTests(const std::string& name) {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) + "/" + name);
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return *model;
}

PromptBenchOptions ShortPrompts() {
  PromptBenchOptions options;
  options.source = "p.txt";
  options.prompts = {{1, {1, 40, 50}}, {2, {1, 60, 70, 80, 90}}, {4, {1}}};
  options.tests = {{.num_prompt = 3, .num_generate = 4},
                   {.num_prompt = 0, .num_generate = 2}};
  options.threads = {1, 2};
  options.repetitions = 2;
  return options;
}

TEST(RunPromptBenchTest, GivesARowPerTestAndThreadCount) {
  const auto model = OpenInTests("models/stories260K.gguf");
  ASSERT_NE(model, nullptr);
  PromptBenchOptions options = ShortPrompts();
  uint64_t last_done = 0;
  options.progress = [&](std::string_view, uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    // Per thread count: 7 of the first prompt to warm up and 2 x (2 x 7), then
    // 5 and 2 x (9 + 3 x 2).
    EXPECT_EQ(total, 2u * (7 + 28 + 5 + 30));
    last_done = done;
  };
  const auto report = RunPromptBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(last_done, 140u);
  EXPECT_EQ(report->subject.ffn, "dense");
  ASSERT_EQ(report->rows.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const PromptRow& row = report->rows[i];
    EXPECT_EQ(row.test.name(), i % 2 == 0 ? "pp3+tg4" : "prompts+tg2");
    EXPECT_EQ(row.num_threads, i < 2 ? 1 : 2);
    EXPECT_EQ(row.num_prompts, i % 2 == 0 ? 2u : 3u);
    EXPECT_EQ(row.num_given, 3u);
    EXPECT_GE(row.runs.size(), 2 * row.num_prompts);
    EXPECT_EQ(row.tokens_per_s.size(), row.runs.size());
    EXPECT_NEAR(row.mean_prompt, 3.0, 0.5);
    EXPECT_LE(row.p50_ns, row.p90_ns);
    EXPECT_LE(row.p90_ns, row.p99_ns);
    EXPECT_GT(row.first_token_ns, 0.0);
    EXPECT_GT(row.response_tokens_per_s, 0.0);
    EXPECT_GT(row.roof_gb_per_s, 0.0);
    EXPECT_FALSE(row.is_sparse);
    for (const PromptRun& run : row.runs) {
      EXPECT_EQ(run.tokens.size(), i % 2 == 0 ? 4u : 2u);
      EXPECT_GE(run.repetition, 1);
    }
  }
  // Every neuron, and the KV rows of the position.
  const TokenSample& last = report->rows[0].runs[0].tokens[3];
  EXPECT_EQ(last.num_bytes,
            engine::WeightBytesPerToken(*model) +
                engine::KvBytesPerToken(model->config(), options.session, 5));
}

// What a session says when it is asked token by token.
TEST(RunPromptBenchTest, GeneratesTheModelsOwnContinuation) {
  const auto model = OpenInTests("models/stories260K.gguf");
  ASSERT_NE(model, nullptr);
  PromptBenchOptions options = ShortPrompts();
  options.tests = {{.num_prompt = 5, .num_generate = 6}};
  options.threads = {1};
  options.repetitions = 1;
  const auto report = RunPromptBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  ASSERT_EQ(report->rows[0].runs.size(), 1u);
  const PromptRun& run = report->rows[0].runs[0];
  EXPECT_EQ(run.line, 2u);

  const auto session = engine::Session::Create(model, options.session);
  ASSERT_TRUE(session.has_value());
  std::vector<float> logits(model->config().vocab_size);
  std::vector<text::TokenId> tokens = options.prompts[1].tokens;
  for (const TokenSample& sample : run.tokens) {
    ASSERT_TRUE((*session)->Prompt(tokens, engine::LogitsOf::kLast, logits));
    const auto likeliest = std::ranges::max_element(logits) - logits.begin();
    EXPECT_EQ(sample.token, static_cast<text::TokenId>(likeliest));
    tokens = {sample.token};
  }
}

TEST(RunPromptBenchTest, CountsWhatSparseTokensRead) {
  const auto model = OpenInTests("golden-powerinfer/llama-f16.powerinfer.gguf");
  ASSERT_NE(model, nullptr);
  PromptBenchOptions options = ShortPrompts();
  options.threads = {1};
  options.repetitions = 1;
  options.tests = {{.num_prompt = 3, .num_generate = 3}};
  const auto sparse = RunPromptBench(model, options);
  ASSERT_TRUE(sparse.has_value()) << sparse.error().message;
  const PromptRow& row = sparse->rows[0];
  EXPECT_TRUE(row.is_sparse);
  EXPECT_GT(row.candidate_share, row.open_share);
  EXPECT_GT(row.open_share, 0.0);
  EXPECT_LT(row.bytes_per_token,
            engine::WeightBytesPerToken(*model, engine::FfnMode::kFast,
                                        engine::PredictorChoice::kTrained) +
                engine::KvBytesPerToken(model->config(), options.session, 4));
}

TEST(RunPromptBenchTest, RefusesWhatCannotRun) {
  const auto model = OpenInTests("models/stories260K.gguf");
  ASSERT_NE(model, nullptr);
  const auto error_of = [](const auto& opened, const auto& options) {
    const auto report = RunPromptBench(opened, options);
    return report.has_value() ? Error{ErrorCode::kIo, "it ran"}
                              : report.error();
  };
  PromptBenchOptions options = ShortPrompts();
  options.repetitions = 0;
  EXPECT_THAT(error_of(model, options).message, HasSubstr("0 repetitions"));
  options = ShortPrompts();
  options.tests[0].num_prompt = 6;
  EXPECT_THAT(error_of(model, options).message, HasSubstr("has 5 tokens"));
  const std::atomic<bool> cancel = true;
  options = ShortPrompts();
  options.session.cancel = &cancel;
  EXPECT_EQ(error_of(model, options).code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thermocline::bench
