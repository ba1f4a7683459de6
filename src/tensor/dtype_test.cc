#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tensor/blocks.h"

namespace thermocline {
namespace {

TEST(DTypeTest, HolesAndUnknownIdsHaveNoType) {
  for (uint32_t id :
       {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 40u, 41u, 1000u, 0xffffffffu}) {
    EXPECT_EQ(FindDType(id), nullptr) << id;
  }
}

TEST(DTypeTest, EveryTypeKnowsItsIdAndItsName) {
  std::set<std::string_view> names;
  for (uint32_t id = 0; id < 64; ++id) {
    const DTypeInfo* info = FindDType(id);
    if (info == nullptr) continue;
    EXPECT_EQ(static_cast<uint32_t>(info->dtype), id);
    EXPECT_EQ(ParseDType(info->name), info->dtype);
    EXPECT_GT(info->block_elems, 0u);
    EXPECT_GT(info->block_bytes, 0u);
    names.insert(info->name);
  }
  EXPECT_EQ(names.size(), 32u);
}

TEST(DTypeTest, NamesIgnoreCase) {
  EXPECT_EQ(ParseDType("q4_k"), DType::kQ4_K);
  EXPECT_EQ(ParseDType("bf16"), DType::kBF16);
  EXPECT_EQ(ParseDType("Iq2_xXs"), DType::kIQ2_XXS);
  EXPECT_EQ(ParseDType("q4"), std::nullopt);
  EXPECT_EQ(ParseDType("q4_k_m"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
}

TEST(DTypeTest, BlocksOfComputableTypesMatchTheirStructs) {
  EXPECT_EQ(InfoOf(DType::kQ8_0).block_bytes, sizeof(BlockQ8_0));
  EXPECT_EQ(InfoOf(DType::kQ4_0).block_bytes, sizeof(BlockQ4_0));
  EXPECT_EQ(InfoOf(DType::kQ4_1).block_bytes, sizeof(BlockQ4_1));
  EXPECT_EQ(InfoOf(DType::kQ5_0).block_bytes, sizeof(BlockQ5_0));
  EXPECT_EQ(InfoOf(DType::kQ5_1).block_bytes, sizeof(BlockQ5_1));
  EXPECT_EQ(InfoOf(DType::kQ4_K).block_bytes, sizeof(BlockQ4_K));
  EXPECT_EQ(InfoOf(DType::kQ5_K).block_bytes, sizeof(BlockQ5_K));
  EXPECT_EQ(InfoOf(DType::kQ6_K).block_bytes, sizeof(BlockQ6_K));
}

TEST(DTypeTest, BitsPerWeightArePublishedFigures) {
  const auto bits = [](DType dtype) {
    return 8.0 * InfoOf(dtype).block_bytes / InfoOf(dtype).block_elems;
  };
  EXPECT_DOUBLE_EQ(bits(DType::kQ2_K), 2.625);
  EXPECT_DOUBLE_EQ(bits(DType::kQ3_K), 3.4375);
  EXPECT_DOUBLE_EQ(bits(DType::kQ6_K), 6.5625);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ1_S), 1.5625);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ1_M), 1.75);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ2_XXS), 2.0625);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ2_XS), 2.3125);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ2_S), 2.5625);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ3_XXS), 3.0625);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ3_S), 3.4375);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ4_XS), 4.25);
  EXPECT_DOUBLE_EQ(bits(DType::kIQ4_NL), 4.5);
  EXPECT_DOUBLE_EQ(bits(DType::kTQ1_0), 1.6875);
  EXPECT_DOUBLE_EQ(bits(DType::kTQ2_0), 2.0625);
  EXPECT_DOUBLE_EQ(bits(DType::kMXFP4), 4.25);
}

TEST(DTypeTest, BytesOf) {
  EXPECT_EQ(BytesOf(DType::kF32, 3), 12u);
  EXPECT_EQ(BytesOf(DType::kQ4_0, 64), 36u);
  EXPECT_EQ(BytesOf(DType::kQ6_K, 512), 420u);
  EXPECT_EQ(BytesOf(DType::kQ6_K, 0), 0u);
}

TEST(DTypeDeathTest, MisuseIsCaught) {
  EXPECT_DEATH(BytesOf(DType::kQ4_0, 33), "check failed");
  EXPECT_DEATH(BytesOf(DType::kF64, uint64_t{1} << 62), "check failed");
  EXPECT_DEATH(InfoOf(static_cast<DType>(5)), "check failed");
}

}  // namespace
}  // namespace thermocline
