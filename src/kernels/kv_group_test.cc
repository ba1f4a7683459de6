#include "kernels/kv_group.h"

#include <set>

#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

constexpr size_t kBlocks = 3;
constexpr size_t kWidth = kBlocks * kBlock;
constexpr size_t kGroupBytes = kKvGroup * kBlocks * sizeof(BlockQ8_0);

TEST(KvGroup, PlacesFillItOnce) {
  std::set<size_t> keys, values;
  for (size_t p = 0; p < kKvGroup; ++p) {
    for (size_t b = 0; b < kBlocks; ++b) {
      for (std::set<size_t>* places : {&keys, &values}) {
        EXPECT_TRUE(places->insert(ScaleInGroup(b, p)).second);
        EXPECT_TRUE(places->insert(ScaleInGroup(b, p) + 1).second);
      }
      for (size_t i = 0; i < kBlock; ++i) {
        EXPECT_TRUE(keys.insert(KeyInGroup(kBlocks, b, p, i)).second);
        EXPECT_TRUE(values.insert(ValueInGroup(kBlocks, b, p, i)).second);
      }
    }
  }
  for (const std::set<size_t>& places : {keys, values}) {
    EXPECT_EQ(places.size(), kGroupBytes);
    EXPECT_EQ(*places.rbegin(), kGroupBytes - 1);
  }
}

class KvGroupStoreTest : public IsaTest {};
TC_FOR_EACH_ISA(KvGroupStoreTest);

// What store_row writes, at the places of that position; nothing else changes.
TEST_P(KvGroupStoreTest, PositionsAreAsRows) {
  for (size_t position : {size_t{0}, size_t{5}, size_t{18}, kKvGroup - 1}) {
    const std::vector<float> x = RandomFloats(kWidth, position);
    BlockQ8_0 row[kBlocks];
    scalar().store_row(DType::kQ8_0, x.data(), kWidth,
                       reinterpret_cast<std::byte*>(row));
    std::vector<std::byte> keys(kGroupBytes, std::byte{0x5A});
    std::vector<std::byte> values = keys;
    std::vector<std::byte> true_keys = keys;
    std::vector<std::byte> true_values = keys;
    for (size_t b = 0; b < kBlocks; ++b) {
      for (std::vector<std::byte>* group : {&true_keys, &true_values}) {
        std::memcpy(group->data() + ScaleInGroup(b, position), &row[b].d,
                    sizeof(row[b].d));
      }
      for (size_t i = 0; i < kBlock; ++i) {
        true_keys[KeyInGroup(kBlocks, b, position, i)] =
            static_cast<std::byte>(row[b].qs[i] + 128);
        true_values[ValueInGroup(kBlocks, b, position, i)] =
            static_cast<std::byte>(row[b].qs[i]);
      }
    }
    StoreKeyInGroup(kernels(), x.data(), kWidth, position, keys.data());
    StoreValueInGroup(kernels(), x.data(), kWidth, position, values.data());
    EXPECT_EQ(keys, true_keys) << position;
    EXPECT_EQ(values, true_values) << position;
  }
}

TEST(KvGroup, OrderDependsOnIsaAndTypes) {
  constexpr DType kQ8 = DType::kQ8_0;
  for (const Isa isa : {Isa::kAvx512Vnni, Isa::kAmx}) {
    EXPECT_EQ(KvOrderFor(isa, kQ8, kQ8), KvOrder::kGroups);
    EXPECT_EQ(KvOrderFor(isa, DType::kF16, kQ8), KvOrder::kRows);
    EXPECT_EQ(KvOrderFor(isa, kQ8, DType::kF32), KvOrder::kRows);
  }
  EXPECT_EQ(KvOrderFor(Isa::kScalar, kQ8, kQ8), KvOrder::kRows);
  EXPECT_EQ(KvOrderFor(Isa::kAvx2, kQ8, kQ8), KvOrder::kRows);
}

}  // namespace
}  // namespace thermocline::kernels
