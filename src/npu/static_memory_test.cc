#include "npu/static_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

TEST(StaticMemoryTest, EveryTensorBeginsAtItsOwnAlignedPlace) {
  const auto model = MakeNpuModel({.num_layers = 3});
  const StaticOptions options = {
      .rows = {1, 9}, .contexts = {64, 128}, .has_head = true};
  const auto memory = StaticMemory::Create(model->config(), options);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->num_bytes(),
            StaticMemory::NumBytes(model->config(), options));
  const StaticActivations& of = memory->of();
  EXPECT_EQ(of.new_kv.size(), 3u);
  std::set<uintptr_t> places;
  const auto add = [&](const void* place) {
    const auto address = reinterpret_cast<uintptr_t>(place);
    EXPECT_EQ(address % Graph::kAlignment, 0u);
    EXPECT_TRUE(places.insert(address).second);
  };
  for (const float* place :
       {of.x, of.y, of.mask, of.rope_cos, of.rope_sin, of.logits}) {
    add(place);
  }
  for (const auto& [k, v] : of.new_kv) {
    add(k);
    add(v);
  }
  add(of.key_rows);
  // The widest are all that they have to be.
  EXPECT_GE(of.y - of.x, 9 * 64);
  EXPECT_GE(of.rope_cos - of.mask, 9 * 128);
}

TEST(StaticMemoryTest, WeightsThatAreInputsNeedTheRowsOfOneLayer) {
  const auto model = MakeNpuModel({.num_layers = 3});
  const StaticOptions options = {
      .weights_are_inputs = true, .rows = {8}, .contexts = {64}};
  const auto memory = StaticMemory::Create(model->config(), options);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->of().new_kv.size(), 1u);
  EXPECT_EQ(memory->of().logits, nullptr);
}

TEST(StaticMemoryTest, NamesOfLayers) {
  EXPECT_EQ(LayerOf("cache_k_12", "cache_k"), 12u);
  for (const char* name :
       {"cache_k", "cache_k_", "cache_k12", "cache_k_1x", "cache_v_1", ""}) {
    EXPECT_EQ(LayerOf(name, "cache_k"), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace thermocline::npu
