#include "engine/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "os/memory.h"

namespace thermocline::engine {
namespace {

model::Config SmallConfig() {
  model::Config config;
  config.num_layers = 2;
  config.width = 90;
  config.ffn_width = 130;
  config.num_heads = 6;
  config.num_kv_heads = 3;
  config.key_width = 10;
  config.value_width = 12;
  config.vocab_size = 20;
  config.rope.width = 10;
  return config;
}

TEST(Scratch, RowsAreAlignedDisjointAndInside) {
  const ScratchShape shape = {.batch = 3, .context = 17, .num_threads = 2};
  const auto num_bytes = ScratchBytes(SmallConfig(), shape);
  ASSERT_TRUE(num_bytes.has_value());
  const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
  ASSERT_TRUE(buffer.has_value());
  const Scratch s = MakeScratch(SmallConfig(), shape, buffer->data());

  const std::vector<std::pair<Rows, size_t>> all = {
      {s.residual, 90}, {s.normed, 90},  {s.delta, 90},    {s.q, 60},
      {s.k, 30},        {s.v, 36},       {s.attended, 72}, {s.gate, 130},
      {s.up, 130},      {s.rope_cos, 5}, {s.rope_sin, 5},  {s.scores, 2 * 17}};
  const std::byte* end_of_last = buffer->data();
  for (const auto& [rows, width] : all) {
    EXPECT_EQ(rows.width, width);
    EXPECT_GE(rows.stride, rows.width);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.row(0)) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.row(1)) % 64, 0u);
    EXPECT_GE(reinterpret_cast<std::byte*>(rows.data), end_of_last);
    const size_t num_rows = rows.data == s.scores.data ? 2 : 3;
    end_of_last = reinterpret_cast<std::byte*>(rows.row(num_rows));
  }
  EXPECT_GE(s.rounded_rows, end_of_last);
  EXPECT_LT(s.rounded_rows, buffer->data() + *num_bytes);
}

TEST(Scratch, NoGateNoRoom) {
  const ScratchShape shape = {.batch = 2, .context = 8, .num_threads = 1};
  model::Config config = SmallConfig();
  const auto gated = ScratchBytes(config, shape);
  config.ffn.gated = false;
  const auto plain = ScratchBytes(config, shape);
  ASSERT_TRUE(gated.has_value() && plain.has_value());
  EXPECT_EQ(*gated - *plain, 2u * 144 * sizeof(float));  // 130, to a line
}

TEST(Scratch, OverflowIsAnError) {
  const std::vector<ScratchShape> shapes = {
      {.batch = 1, .context = INT64_MAX, .num_threads = 500},
      {.batch = INT64_MAX, .context = INT64_MAX, .num_threads = 1},
      {.batch = int64_t{1} << 54,
       .context = int64_t{1} << 54,
       .num_threads = 1},
  };
  for (const ScratchShape& shape : shapes) {
    const auto num_bytes = ScratchBytes(SmallConfig(), shape);
    ASSERT_FALSE(num_bytes.has_value()) << *num_bytes;
    EXPECT_EQ(num_bytes.error().code, ErrorCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace thermocline::engine
