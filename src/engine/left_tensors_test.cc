#include "engine/left_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(LeftTensorsTest, OfADenseModelMatricesOfLayersStay) {
  const testing::TinySpec spec = {.num_layers = 4, .biases = true};
  const auto model = testing::MakeTinyModel(spec);
  const auto left_at = [&](std::optional<uint64_t> ram) {
    return TensorsToLeave(model->file(), model->config(),
                          {.num_threads = 1, .budget = {.ram = ram}})
        .value();
  };
  EXPECT_THAT(left_at(std::nullopt), IsEmpty());
  EXPECT_THAT(left_at(uint64_t{1} << 40), IsEmpty());
  const std::vector<std::string> names = left_at(0);
  for (const char* kept :
       {"token_embd.weight", "output.weight", "output_norm.weight",
        "blk.0.attn_norm.weight", "blk.3.attn_q.bias"}) {
    EXPECT_THAT(names, Not(Contains(kept)));
  }
  for (const char* left : {"blk.0.attn_q.weight", "blk.0.attn_output.weight",
                           "blk.3.ffn_gate.weight", "blk.3.ffn_up.weight",
                           "blk.3.ffn_down.weight"}) {
    EXPECT_THAT(names, Contains(left));
  }
  EXPECT_EQ(names.size(), 4u * 7u);
  const auto left = LeftOf(model->file(), model->config(), names);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->unit, StreamUnit::kLayers);
  EXPECT_EQ(left->num_layers, 4u);
  EXPECT_GT(left->block_bytes, 0u);
  EXPECT_EQ(left->block_bytes % kBlockAlignment, 0u);
  EXPECT_FALSE(LeftOf(model->file(), model->config(), {}));
}

}  // namespace
}  // namespace thermocline::engine
