#include "engine/attention/attention_scratch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "os/memory.h"

namespace thermocline::engine {
namespace {

model::Config HeadsConfig() {
  model::Config config;
  config.width = 90;
  config.layers = {model::LayerSpec{.attention = {.num_heads = 6,
                                                  .num_kv_heads = 3,
                                                  .key_width = 10,
                                                  .value_width = 12}}};
  return config;
}

TEST(AttentionScratch, RowsAreAsWideAsTheHeads) {
  compute::Carver plan(nullptr);
  CarveAttention(HeadsConfig(), 3, 17, 2, plan);
  const auto buffer = os::AlignedBuffer::Allocate(plan.used());
  ASSERT_TRUE(buffer.has_value());
  compute::Carver carver(buffer->data());
  const AttentionScratch s =
      CarveAttention(HeadsConfig(), 3, 17, 2, carver).front();
  const std::vector<std::pair<compute::Rows, size_t>> all = {
      {s.q, 60},
      {s.k, 30},
      {s.v, 36},
      {s.attended, 72},
      {s.work, kernels::AttentionScratchFloats(10, 12)},
      {s.sums, 2 * kernels::kAttentionQueries * 32},
      {s.partials, 32}};  // 12, to a line, and a line
  for (const auto& [rows, width] : all) EXPECT_EQ(rows.width, width);
  EXPECT_LE(reinterpret_cast<std::byte*>(s.partials.row(3 * 6)),
            buffer->data() + plan.used());
}

// Nothing is kept from layer to layer: the same place, as large as the largest.
TEST(AttentionScratch, LayersShareTheirMemory) {
  const auto bytes_of = [](const model::Config& config) {
    compute::Carver carver(nullptr);
    CarveAttention(config, 3, 17, 2, carver);
    return carver.used();
  };
  const model::Config wide = HeadsConfig();
  model::Config config = wide;
  config.layers.front().attention.num_heads = 3;
  EXPECT_LT(bytes_of(config), bytes_of(wide));
  config.layers.push_back(wide.layers.front());
  config.layers.push_back(config.layers.front());
  const uint64_t num_bytes = bytes_of(config);
  EXPECT_EQ(num_bytes, bytes_of(wide));
  const auto buffer = os::AlignedBuffer::Allocate(num_bytes);
  ASSERT_TRUE(buffer.has_value());
  compute::Carver carver(buffer->data());
  const auto layers = CarveAttention(config, 3, 17, 2, carver);
  ASSERT_EQ(layers.size(), 3u);
  const size_t widths[] = {30, 60, 30};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(layers[i].q.data, layers[0].q.data);
    EXPECT_EQ(layers[i].q.width, widths[i]);
  }
}

TEST(AttentionScratch, PartialSumsOfAFewRowsGrowWithTheContext) {
  const auto bytes_of = [](uint64_t num_rows, uint64_t context) {
    compute::Carver carver(nullptr);
    CarveAttention(HeadsConfig(), num_rows, context, 2, carver);
    return carver.used();
  };
  constexpr size_t kPiece = kernels::kAttentionPiece;
  EXPECT_EQ(bytes_of(3, kPiece), bytes_of(3, 1));
  EXPECT_EQ(bytes_of(3, 9 * kPiece) - bytes_of(3, kPiece), 8 * 3 * 6 * 32 * 4u);
  EXPECT_EQ(bytes_of(99, 9 * kPiece) - bytes_of(99, kPiece),
            8 * AttentionScratch::kSplitRows * 6 * 32 * 4);
}

}  // namespace
}  // namespace thermocline::engine
