#include "engine/kv/kv_layout.h"

#include <gtest/gtest.h>

#include <string>

#include "base/remedy.h"

namespace thermocline::engine {
namespace {

model::Config TwoKvHeads(size_t key_width, size_t value_width) {
  model::Config config;
  config.num_layers = 3;
  config.layers.assign(
      3, model::LayerSpec{.attention = {.num_heads = 4,
                                        .num_kv_heads = 2,
                                        .key_width = key_width,
                                        .value_width = value_width}});
  return config;
}

TEST(KvLayout, CountsTheBytesOfEachType) {
  const auto config = TwoKvHeads(32, 64);
  const auto f16 = PlanKvLayout(config, DType::kF16, DType::kF16);
  ASSERT_TRUE(f16.has_value());
  EXPECT_EQ(f16->layer(2).k_head_bytes, 32u * 2);
  EXPECT_EQ(f16->layer(2).v_head_bytes, 64u * 2);
  EXPECT_EQ(f16->position_bytes(), 3u * 2 * (64 + 128));
  EXPECT_EQ(f16->page_bytes, 64 * f16->position_bytes());
  EXPECT_EQ(f16->layer(2).offset, 2 * f16->page_bytes / 3);
  const auto mixed = PlanKvLayout(config, DType::kQ8_0, DType::kF32);
  ASSERT_TRUE(mixed.has_value());
  EXPECT_EQ(mixed->layer(0).k_head_bytes, 34u);
  EXPECT_EQ(mixed->layer(0).v_head_bytes, 64u * 4);
  EXPECT_EQ(mixed->layer(0).k_offset(1), 64u * 34);
  EXPECT_EQ(mixed->layer(0).v_offset(0), 2 * 64u * 34);
  EXPECT_EQ(mixed->layer(0).v_offset(2), mixed->layer(1).offset);
}

// A page takes of each layer what its own heads need.
TEST(KvLayout, LayersMayDiffer) {
  model::Config config = TwoKvHeads(32, 64);
  config.layers[1].attention.num_kv_heads = 1;
  config.layers[2].attention.key_width = 96;
  const auto layout = PlanKvLayout(config, DType::kQ8_0, DType::kF16);
  ASSERT_TRUE(layout.has_value());
  const uint64_t bytes[] = {2 * (34 + 128), 34 + 128, 2 * (3 * 34 + 128)};
  uint64_t offset = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(layout->layer(i).offset, offset);
    EXPECT_EQ(layout->layer(i).k_offset(0), offset);
    EXPECT_EQ(layout->layer(i).position_bytes(), bytes[i]);
    offset += 64 * bytes[i];
  }
  EXPECT_EQ(layout->page_bytes, offset);
  EXPECT_EQ(layout->position_bytes(), offset / 64);
  config.layers[2].attention.key_width = 48;
  EXPECT_FALSE(PlanKvLayout(config, DType::kQ8_0, DType::kF16).has_value());
}

TEST(KvLayout, PagesHold64Positions) {
  EXPECT_EQ(KvPagesFor(0), 0u);
  EXPECT_EQ(KvPagesFor(1), 1u);
  EXPECT_EQ(KvPagesFor(64), 1u);
  EXPECT_EQ(KvPagesFor(65), 2u);
}

TEST(KvLayout, RefusesTypesAndWidths) {
  const auto q4 = PlanKvLayout(TwoKvHeads(32, 32), DType::kQ4_0, DType::kF16);
  ASSERT_FALSE(q4.has_value());
  EXPECT_EQ(q4.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(q4.error().message.find("keys in Q4_0"), std::string::npos);
  EXPECT_EQ(q4.error().advice.remedy, Remedy::kKeyType);
  const auto narrow =
      PlanKvLayout(TwoKvHeads(32, 48), DType::kQ8_0, DType::kQ8_0);
  ASSERT_FALSE(narrow.has_value());
  EXPECT_EQ(narrow.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(narrow.error().message.find("values in Q8_0"), std::string::npos);
  EXPECT_EQ(narrow.error().advice.remedy, Remedy::kValueType);
  EXPECT_NE(narrow.error().message.find("48"), std::string::npos);
}

TEST(KvLayout, OverflowIsAnError) {
  const auto layout =
      PlanKvLayout(TwoKvHeads(32, 32), DType::kF32, DType::kF32);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(KvBytes(*layout, 5).value(), 5 * layout->page_bytes);
  for (const uint64_t num_pages : {UINT64_MAX, UINT64_MAX / 1000}) {
    const auto num_bytes = KvBytes(*layout, num_pages);
    ASSERT_FALSE(num_bytes.has_value());
    EXPECT_EQ(num_bytes.error().code, ErrorCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace thermocline::engine
