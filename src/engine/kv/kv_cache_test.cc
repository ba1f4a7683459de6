#include "engine/kv/kv_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace thermocline::engine {
namespace {

model::Config SmallConfig(int64_t key_width, int64_t value_width) {
  model::Config config;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.key_width = key_width;
  config.value_width = value_width;
  return config;
}

TEST(KvCache, CountsTheBytesOfEachType) {
  const auto config = SmallConfig(32, 64);
  const auto f16 = PlanKvCache(config, DType::kF16, DType::kF16, 10);
  ASSERT_TRUE(f16.has_value());
  EXPECT_EQ(f16->k_row_bytes, 2u * 32 * 2);
  EXPECT_EQ(f16->v_row_bytes, 2u * 64 * 2);
  EXPECT_EQ(f16->num_bytes, 3u * 10 * (128 + 256));
  EXPECT_EQ(f16->BytesRead(7), 3u * 7 * (128 + 256));
  const auto mixed = PlanKvCache(config, DType::kQ8_0, DType::kF32, 10);
  ASSERT_TRUE(mixed.has_value());
  EXPECT_EQ(mixed->k_head_bytes, 34u);
  EXPECT_EQ(mixed->v_head_bytes, 64u * 4);
  // The keys of a head, 340 bytes, end at a cache line: 384.
  EXPECT_EQ(mixed->num_bytes, 3u * (2 * 384 + 10 * 512));
}

TEST(KvCache, GroupsAreWhole) {
  const auto layout = PlanKvCache(SmallConfig(64, 128), DType::kQ8_0,
                                  DType::kQ8_0, 65, kernels::KvOrder::kGroups);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->context, 65);
  EXPECT_EQ(layout->BytesRead(65), 3u * 65 * 2 * (68 + 136));
  EXPECT_EQ(layout->num_bytes, 3u * 128 * 2 * (68 + 136));
  const auto cache = KvCache::Create(*layout);
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(cache->keys(0, 1, 64) - cache->keys(0, 0, 64), 128 * 68);
  EXPECT_EQ(cache->values(2, 1, 64) - cache->keys(0, 0, 0),
            static_cast<int64_t>(layout->num_bytes) - 64 * 136);
}

TEST(KvCache, RowsAreDisjointAndInside) {
  const auto layout =
      PlanKvCache(SmallConfig(7, 5), DType::kF32, DType::kF16, 9);
  ASSERT_TRUE(layout.has_value());
  auto cache = KvCache::Create(*layout);
  ASSERT_TRUE(cache.has_value());
  uint8_t mark = 0;
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (size_t head = 0; head < 2; ++head) {
      for (int64_t position = 0; position < 9; ++position) {
        std::memset(cache->keys(layer, head, position), ++mark,
                    layout->k_head_bytes);
        std::memset(cache->values(layer, head, position), ++mark,
                    layout->v_head_bytes);
      }
    }
  }
  mark = 0;
  const auto is_filled = [](const std::byte* row, uint64_t n, uint8_t value) {
    for (uint64_t i = 0; i < n; ++i) {
      if (row[i] != std::byte{value}) return false;
    }
    return true;
  };
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (size_t head = 0; head < 2; ++head) {
      for (int64_t position = 0; position < 9; ++position) {
        EXPECT_TRUE(is_filled(cache->keys(layer, head, position),
                              layout->k_head_bytes, ++mark));
        EXPECT_TRUE(is_filled(cache->values(layer, head, position),
                              layout->v_head_bytes, ++mark));
      }
    }
  }
}

TEST(KvCache, RefusesTypesAndWidths) {
  const auto q4 =
      PlanKvCache(SmallConfig(32, 32), DType::kQ4_0, DType::kF16, 8);
  ASSERT_FALSE(q4.has_value());
  EXPECT_EQ(q4.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(q4.error().message.find("-ctk Q4_0"), std::string::npos);
  const auto narrow =
      PlanKvCache(SmallConfig(32, 48), DType::kQ8_0, DType::kQ8_0, 8);
  ASSERT_FALSE(narrow.has_value());
  EXPECT_EQ(narrow.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(narrow.error().message.find("-ctv Q8_0"), std::string::npos);
  EXPECT_NE(narrow.error().message.find("48"), std::string::npos);
}

TEST(KvCache, OverflowIsAnError) {
  for (const int64_t context : {INT64_MAX, INT64_MAX / 100, INT64_MAX / 400}) {
    const auto layout =
        PlanKvCache(SmallConfig(32, 32), DType::kF32, DType::kF32, context);
    ASSERT_FALSE(layout.has_value());
    EXPECT_EQ(layout.error().code, ErrorCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace thermocline::engine
