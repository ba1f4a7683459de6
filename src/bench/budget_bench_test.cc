#include "bench/budget_bench.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/left_tensors.h"

namespace thermocline::bench {
namespace {

BudgetBenchOptions SmallBudgetBench() {
  BudgetBenchOptions options;
  options.test = {.num_prompt = 5, .num_generate = 6};
  options.session.context = 16;
  options.session.num_threads = 1;
  options.host_rate = 1e9;
  options.probe_seconds = 0.001;
  return options;
}

TEST(BudgetBench, CountsWhatTokensRead) {
  const std::string path =
      std::string(TC_TEST_DATA) + "/golden/llama-gqa-f16.gguf";
  const BudgetBenchOptions options = SmallBudgetBench();
  const auto mapped = model::Model::Open(path).value();
  const auto whole = RunBudgetBench(mapped, options);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->unit, "");
  EXPECT_EQ(whole->resident, 1.0);
  EXPECT_EQ(whole->tokens.size(), 5u);
  EXPECT_EQ(whole->tokens_per_s.size(), 1u);
  EXPECT_GT(whole->peak_bytes, 0u);
  EXPECT_GT(whole->bound_seconds(), 0.0);
  EXPECT_TRUE(whole->is_in_memory);
  EXPECT_FALSE(whole->replay);
  for (const StreamedToken& token : whole->tokens) {
    EXPECT_GT(token.seconds, 0.0);
    EXPECT_EQ(token.stream_bytes, 0u);
    EXPECT_GT(token.memory_bytes, 0u);
  }
}

TEST(BudgetBench, ReadsAgainWhatStreams) {
  const std::string path =
      std::string(TC_TEST_DATA) + "/golden/llama-gqa-f16.gguf";
  BudgetBenchOptions options = SmallBudgetBench();
  options.session.budget.ram = 0;
  model::OpenOptions open;
  open.leaves = [&](const gguf::File& file, const model::Config& config) {
    return engine::TensorsToLeave(file, config, options.session);
  };
  const auto model = model::Model::Open(path, open).value();
  ASSERT_TRUE(model->is_partly_left());
  options.session.budget.ram =
      engine::PlanRuntime(*model, options.session)->memory.host.total();
  const auto row = RunBudgetBench(model, options);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->unit, "layers");
  EXPECT_EQ(row->ram, *options.session.budget.ram);
  EXPECT_LE(row->planned_bytes, row->ram);
  EXPECT_LT(row->resident, 1.0);
  EXPECT_FALSE(row->is_in_memory);
  ASSERT_TRUE(row->replay);
  EXPECT_EQ(row->replay->seconds.size(), 5u);
  EXPECT_EQ(row->replay->in_turns_seconds.size(), 5u);
}

}  // namespace
}  // namespace thermocline::bench
