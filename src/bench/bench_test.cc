#include "bench/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const model::Model> OpenGolden() {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                  "/golden/llama-gqa-Q4_0.gguf");
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return *model;
}

BenchOptions SmallOptions() {
  BenchOptions options;
  options.prompt_lengths = {5, 0};
  options.generate_lengths = {3};
  options.threads = {1, 2};
  options.repetitions = 2;
  return options;
}

TEST(RunBenchTest, GivesARowPerTestAndThreadCount) {
  const auto model = OpenGolden();
  ASSERT_NE(model, nullptr);
  uint64_t last_done = 0;
  BenchOptions options = SmallOptions();
  options.progress = [&](std::string_view, uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    EXPECT_EQ(total, 48u);  // 5 + 3 tokens x 2 thread counts x (1 + 2) runs
    last_done = done;
  };
  const auto report = RunBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(last_done, 48u);
  ASSERT_EQ(report->rows.size(), 4u);
  const char* const tests[] = {"pp5", "tg3", "pp5", "tg3"};
  for (size_t i = 0; i < 4; ++i) {
    const BenchRow& row = report->rows[i];
    EXPECT_EQ(row.test, tests[i]);
    EXPECT_EQ(row.num_threads, i < 2 ? 1 : 2);
    EXPECT_LE(row.num_dropped, 2);
    EXPECT_FALSE(row.profile.has_value());
    EXPECT_NE(row.limit, LimitKind::kNone);
    EXPECT_GT(row.gmac_per_s, 0.0);
    EXPECT_GT(row.percent_of_limit, 0.0);
    ASSERT_EQ(row.tokens_per_s.size(), 2u);
    ASSERT_EQ(row.samples_ns.size(), 2u);
    const auto num_tokens =
        static_cast<double>(row.num_prompt + row.num_generate);
    for (size_t j = 0; j < 2; ++j) {
      EXPECT_NEAR(static_cast<double>(row.samples_ns[j]) * row.tokens_per_s[j],
                  1e9 * num_tokens, row.tokens_per_s[j]);
    }
    EXPECT_DOUBLE_EQ(
        row.mean_ns,
        static_cast<double>(row.samples_ns[0] + row.samples_ns[1]) / 2.0);
    EXPECT_GT(row.mean, 0.0);
    EXPECT_TRUE(std::isfinite(row.stddev));
    EXPECT_GT(row.roof_gb_per_s, 0.0);
    EXPECT_NEAR(row.gb_per_s,
                row.median * static_cast<double>(row.bytes_per_token) / 1e9,
                1e-9 * row.gb_per_s);
  }
  // A batch shares the weights among its tokens.
  EXPECT_LT(report->rows[0].bytes_per_token, report->rows[1].bytes_per_token);
  // Three tokens read the KV rows of one, two and three positions.
  EXPECT_EQ(report->rows[1].bytes_per_token,
            engine::WeightBytesPerToken(*model) +
                engine::KvBytesPerToken(model->config(), options.session, 1));
  EXPECT_THAT(report->subject.model_name, HasSubstr("llama"));
  EXPECT_GT(report->subject.num_params, 0u);
}

TEST(RunBenchTest, FillsTheCacheToTheDepth) {
  const auto model = OpenGolden();
  ASSERT_NE(model, nullptr);
  BenchOptions options = SmallOptions();
  options.threads = {1};
  options.depths = {0, 7};
  uint64_t last_done = 0;
  options.progress = [&](std::string_view, uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    EXPECT_EQ(total, 48u);  // the filling does not count
    last_done = done;
  };
  const auto report = RunBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(last_done, 48u);
  ASSERT_EQ(report->rows.size(), 4u);
  EXPECT_EQ(report->rows[2].test, "pp5 @ d7");
  EXPECT_EQ(report->rows[3].test, "tg3 @ d7");
  EXPECT_EQ(report->rows[3].depth, 7);
  const auto kv_bytes = [&](int64_t position) {
    return engine::KvBytesPerToken(model->config(), options.session, position);
  };
  EXPECT_EQ(report->rows[3].bytes_per_token - report->rows[1].bytes_per_token,
            kv_bytes(8) - kv_bytes(1));
}

TEST(RunBenchTest, AccountsForEveryStage) {
  const auto model = OpenGolden();
  ASSERT_NE(model, nullptr);
  BenchOptions options = SmallOptions();
  options.threads = {2};
  options.depths = {4};
  options.profile = true;
  const auto report = RunBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  ASSERT_EQ(report->subject.num_layers, 2);
  // Of the repetitions alone: neither the warm-up nor the filling.
  const uint64_t num_batches[] = {2, 6};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(report->rows[i].profile.has_value());
    const compute::StageTimes& profile = *report->rows[i].profile;
    EXPECT_EQ(profile.whole.num_calls, num_batches[i]);
    EXPECT_EQ(profile.of(compute::Stage::kDown).num_calls, 2 * num_batches[i]);
    EXPECT_EQ(profile.of(compute::Stage::kHead).num_calls, num_batches[i]);
    EXPECT_GT(profile.whole.num_joins, 0u);
  }
}

// 10 tokens of 2 GB each, at 100 GB/s: 0.2 s, wherever the weights are.
TEST(ApplyLimitTest, ReadsFromTheCacheMayBeTheLimit) {
  for (const bool in_cache : {false, true}) {
    BenchRow row = {.num_generate = 10,
                    .num_threads = 2,
                    .median = 25,
                    .bytes_per_token = 2'000'000'000,
                    .in_cache = in_cache};
    ApplyLimit({.num_macs = 1e9, .seconds = 0.2}, 100, row);
    EXPECT_EQ(row.limit, LimitKind::kMemory) << in_cache;
    EXPECT_NEAR(row.percent_of_limit, 50, 1e-9) << in_cache;
    EXPECT_NEAR(row.gmac_per_s, 2.5, 1e-9);
    ApplyLimit({.num_macs = 1e9, .seconds = 0.8}, 100, row);
    EXPECT_EQ(row.limit, LimitKind::kArithmetic) << in_cache;
    EXPECT_NEAR(row.percent_of_limit, 100, 1e-9) << in_cache;
  }
}

// Layer by layer, so that a long prompt does not look stuck.
TEST(RunBenchTest, TellsOfProgressInsideAPrefill) {
  const auto model = OpenGolden();
  ASSERT_NE(model, nullptr);
  BenchOptions options;
  options.prompt_lengths = {8};
  options.generate_lengths = {0};
  options.threads = {1};
  options.repetitions = 1;
  std::vector<uint64_t> done;
  options.progress = [&](std::string_view, uint64_t num_done, uint64_t) {
    done.push_back(num_done);
  };
  const auto report = RunBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  ASSERT_EQ(model->config().num_layers, 2);
  EXPECT_EQ(done, (std::vector<uint64_t>{4, 8, 12, 16}));
  EXPECT_EQ(report->subject.ffn, "dense");
}

TEST(RunBenchTest, SaysWhenNotAllNeuronsAreComputed) {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                  "/golden-powerinfer/"
                                  "llama-f16.powerinfer.gguf");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  BenchOptions options;
  options.prompt_lengths = {0};
  options.generate_lengths = {2};
  options.threads = {1};
  options.repetitions = 1;
  const auto fast = RunBench(*model, options);
  ASSERT_TRUE(fast.has_value()) << fast.error().message;
  EXPECT_EQ(fast->subject.ffn, "fast");
  EXPECT_TRUE(fast->rows[0].is_sparse);
  EXPECT_FALSE(fast->rows[0].bytes_are_bound);
  EXPECT_GT(fast->rows[0].candidate_share, fast->rows[0].open_share);
  EXPECT_GT(fast->rows[0].open_share, 0.05);
  options.session.ffn = engine::FfnMode::kDense;
  const auto dense = RunBench(*model, options);
  ASSERT_TRUE(dense.has_value()) << dense.error().message;
  EXPECT_EQ(dense->subject.ffn, "dense");
  EXPECT_FALSE(dense->rows[0].is_sparse);
  EXPECT_EQ(dense->rows[0].candidate_share, 0.0);
  // Of a prompt the bytes are known if all neurons are computed.
  options.session.ffn = engine::FfnMode::kFast;
  options.prompt_lengths = {12};
  options.generate_lengths = {0};
  const auto same = RunBench(*model, options);
  options.session.dense_prompts = true;
  const auto prompt = RunBench(*model, options);
  ASSERT_TRUE(same.has_value() && prompt.has_value());
  EXPECT_TRUE(same->rows[0].is_sparse && same->rows[0].bytes_are_bound);
  EXPECT_FALSE(prompt->rows[0].is_sparse || prompt->rows[0].bytes_are_bound);
}

TEST(RunBenchTest, PromptsAreSparseOnlyWhereTheyAreAskedToBe) {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                  "/golden-powerinfer/"
                                  "llama-f16.powerinfer.gguf");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  BenchOptions options;
  options.prompt_lengths = {3, 19};
  options.generate_lengths = {2};
  options.threads = {1};
  options.repetitions = 1;
  options.session.batch = 16;
  for (const bool dense_prompts : {false, true}) {
    options.session.dense_prompts = dense_prompts;
    const auto report = RunBench(*model, options);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    for (const BenchRow& row : report->rows) {
      EXPECT_EQ(row.is_sparse, !dense_prompts || row.num_generate > 0);
      EXPECT_EQ(row.bytes_are_bound, row.is_sparse && row.num_prompt > 0);
      EXPECT_EQ(row.limit == LimitKind::kNone, row.is_sparse);
    }
  }
}

TEST(RunBenchTest, RefusesWhatCannotRun) {
  const auto model = OpenGolden();
  ASSERT_NE(model, nullptr);
  const auto message = [&](const BenchOptions& options) {
    const auto report = RunBench(model, options);
    return report.has_value() ? std::string() : report.error().message;
  };
  BenchOptions options = SmallOptions();
  options.prompt_lengths = {0};
  options.generate_lengths = {0};
  EXPECT_THAT(message(options), HasSubstr("nothing to run"));

  options = SmallOptions();
  options.prompt_lengths = {model->config().context_length + 1};
  EXPECT_THAT(message(options),
              HasSubstr(std::to_string(model->config().context_length)));
  EXPECT_THAT(message(options),
              HasSubstr(std::to_string(model->config().context_length + 1)));

  options = SmallOptions();
  options.generate_lengths = {-3};
  EXPECT_THAT(message(options), HasSubstr("-3"));

  options = SmallOptions();
  options.repetitions = 0;
  EXPECT_THAT(message(options), HasSubstr("repetitions"));
}

TEST(RunBenchTest, StopsWhenCancelled) {
  const auto model = OpenGolden();
  ASSERT_NE(model, nullptr);
  const std::atomic<bool> cancel = true;
  BenchOptions options = SmallOptions();
  options.session.cancel = &cancel;
  const auto report = RunBench(model, options);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thermocline::bench
