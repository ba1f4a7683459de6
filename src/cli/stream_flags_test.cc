#include "cli/stream_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/config.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

model::Config SmallConfig(size_t num_experts) {
  model::Config config;
  config.width = 64;
  config.vocab_size = 100;
  config.context_length = 64;
  config.num_layers = 1;
  model::LayerSpec& layer = config.layers.emplace_back();
  layer.attention = {.num_heads = 1, .num_kv_heads = 1};
  layer.attention.key_width = layer.attention.value_width = 64;
  layer.ffn.width = 128;
  layer.ffn.num_experts = num_experts;
  layer.ffn.num_experts_used = num_experts;
  return config;
}

TEST(LeavesRecordsTest, WhatIsMoreThanTheBudget) {
  engine::SessionOptions options = {.num_threads = 1};
  EXPECT_FALSE(LeavesRecords(options, SmallConfig(0), kGiB).value());
  options.budget.ram = 2 * kGiB;
  EXPECT_FALSE(LeavesRecords(options, SmallConfig(0), kGiB).value());
  EXPECT_TRUE(LeavesRecords(options, SmallConfig(0), 2 * kGiB).value());
  EXPECT_FALSE(LeavesRecords(options, SmallConfig(2), 2 * kGiB).value());
}

TEST(PolicyFlagTest, NamesThoseThereAre) {
  const MainResult result =
      RunMain({"run", "-m", "m", "-p", "a", "--policy", "x"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("two-queue"));
}

}  // namespace
}  // namespace thermocline::cli
