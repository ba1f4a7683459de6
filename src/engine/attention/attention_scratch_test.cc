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
  config.num_heads = 6;
  config.num_kv_heads = 3;
  config.key_width = 10;
  config.value_width = 12;
  return config;
}

TEST(AttentionScratch, RowsAreAsWideAsTheHeads) {
  compute::Carver plan(nullptr);
  CarveAttention(HeadsConfig(), 3, 17, 2, plan);
  const auto buffer = os::AlignedBuffer::Allocate(plan.used());
  ASSERT_TRUE(buffer.has_value());
  compute::Carver carver(buffer->data());
  const AttentionScratch s = CarveAttention(HeadsConfig(), 3, 17, 2, carver);
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
