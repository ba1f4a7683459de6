#include "npu/static_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "npu/block.h"
#include "npu/test_npu_model.h"
#include "tensor/float16.h"

namespace thermocline::npu {
namespace {

using Halves = std::vector<uint16_t>;

constexpr size_t kKeys = 2 * 16;
constexpr size_t kValues = 2 * 16;

Halves SomeRows(size_t count, size_t width, float first) {
  Halves rows(count * width);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = F32ToF16(first + static_cast<float>(i) / 16.0f);
  }
  return rows;
}

TEST(StaticKvTest, WhatIsKeptIsGivenInTheHostsOrder) {
  const auto model = MakeNpuModel({});  // llama: neighbours rotate
  const auto kv = StaticKv::Create(&model->config(), 64);
  ASSERT_TRUE(kv.has_value());
  const Halves k = SomeRows(3, kKeys, 1.0f);
  const Halves v = SomeRows(3, kValues, -1.0f);
  ASSERT_TRUE(kv->Keep(1, 5, 3, k.data(), v.data()).has_value());
  Halves room(3 * kKeys);
  bool is_given = false;
  const KvSink sink = {.put = [&](size_t layer_idx, int64_t first,
                                  int64_t count, const uint16_t* host_k,
                                  const uint16_t* host_v) {
    is_given = true;
    EXPECT_EQ(layer_idx, 1u);
    EXPECT_EQ(first, 5);
    EXPECT_EQ(count, 3);
    Halves in_order = k;
    ToHostOrder(model->config(), 1, 3, in_order.data());
    EXPECT_NE(in_order, k);
    EXPECT_TRUE(std::equal(in_order.begin(), in_order.end(), host_k));
    EXPECT_TRUE(std::equal(v.begin(), v.end(), host_v));
  }};
  kv->Give(1, 5, 3, sink, room.data());
  EXPECT_TRUE(is_given);
  // And back: the graph's order again.
  const KvSource source = {.get = [&](size_t, int64_t, int64_t count,
                                      uint16_t* host_k, uint16_t* host_v) {
    std::ranges::copy(k, host_k);
    ToHostOrder(model->config(), 0, count, host_k);
    std::ranges::copy(v, host_v);
  }};
  kv->Take(0, 5, 3, source);
  const auto* keys = reinterpret_cast<const uint16_t*>(kv->keys(0));
  EXPECT_TRUE(std::equal(k.begin(), k.end(), keys + 5 * kKeys));
  // Neither touches other rows.
  EXPECT_TRUE(std::all_of(keys, keys + 5 * kKeys,
                          [](uint16_t value) { return value == 0; }));
  EXPECT_EQ(keys[8 * kKeys], 0);
}

// 0 times infinity, which a mask would give, is no number.
TEST(StaticKvTest, HoldsNothingThatIsNotFinite) {
  const auto model = MakeNpuModel({});
  const auto kv = StaticKv::Create(&model->config(), 64);
  ASSERT_TRUE(kv.has_value());
  const Halves good = SomeRows(2, kKeys, 1.0f);
  for (const float value : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    Halves bad = good;
    bad[kKeys + 3] = F32ToF16(value);
    for (const bool in_keys : {false, true}) {
      const Status status = kv->Keep(0, 4, 2, (in_keys ? bad : good).data(),
                                     (in_keys ? good : bad).data());
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      EXPECT_EQ(status.error().message,
                "keys or values of layer 0 are not finite in F16 at positions "
                "4 to 5");
    }
    kv->Take(0, 4, 2,
             {.get = [&](size_t, int64_t, int64_t, uint16_t* k, uint16_t* v) {
               std::ranges::copy(bad, k);
               std::ranges::copy(bad, v);
             }});
    const auto* values = reinterpret_cast<const uint16_t*>(kv->values(0));
    EXPECT_EQ(values[5 * kValues + 3], 0);
    EXPECT_EQ(values[5 * kValues + 4], good[kKeys + 4]);
  }
}

TEST(StaticKvTest, HugeOnesAreRefused) {
  const auto model = MakeNpuModel({});
  const auto kv = StaticKv::Create(&model->config(), int64_t{1} << 50);
  ASSERT_FALSE(kv.has_value());
  EXPECT_EQ(kv.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thermocline::npu
