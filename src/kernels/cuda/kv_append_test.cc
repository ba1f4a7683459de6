#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_launch.h"
#include "tensor/float16.h"

namespace thermocline::cuda {

using kernels::KvAppendArgs;
std::span<const Mutant<LaunchFn<KvAppendArgs>>> MutantsOfKvAppend();

namespace {

constexpr size_t kPage = kernels::kDevicePage;

// Pages of another layer's keys and values too, at their offsets.
struct AppendCase {
  size_t num_heads, k_width, v_width;
  std::vector<uint32_t> places;
  size_t num_pages = 3;
  size_t k_offset = 64, v_offset = 0, page_bytes = 0;
  std::vector<float> k, v;

  AppendCase(size_t heads, size_t of_keys, size_t of_values,
             std::vector<uint32_t> at)
      : num_heads(heads),
        k_width(of_keys),
        v_width(of_values),
        places(std::move(at)) {
    v_offset = k_offset + num_heads * kPage * k_width * 2;
    page_bytes = v_offset + num_heads * kPage * v_width * 2 + 32;
    Random random(k_width);
    k = RandomFloats(random, places.size() * num_heads * k_width, 100.0f);
    v = RandomFloats(random, places.size() * num_heads * v_width, 100.0f);
  }

  static uint16_t Half(float value) {
    const uint16_t half = F32ToF16(value);
    return (half & 0x7c00) == 0x7c00 ? 0x7fff : half;
  }

  void Put(size_t row, const std::vector<float>& values, size_t width,
           size_t offset, std::vector<uint8_t>& pages) const {
    for (size_t i = 0; i < num_heads * width; ++i) {
      const uint16_t half = Half(values[row * num_heads * width + i]);
      const size_t position = i / width * kPage + places[row] % kPage;
      std::memcpy(&pages[places[row] / kPage * page_bytes + offset +
                         (position * width + i % width) * 2],
                  &half, sizeof half);
    }
  }

  std::vector<uint8_t> Right() const {
    std::vector<uint8_t> pages(num_pages * page_bytes, 0xa5);
    for (size_t row = 0; row < places.size(); ++row) {
      Put(row, k, k_width, k_offset, pages);
      Put(row, v, v_width, v_offset, pages);
    }
    return pages;
  }

  // Empty: the device failed.
  std::vector<uint8_t> Run(LaunchFn<KvAppendArgs> launch) const {
    const DeviceArray<float> keys(k), values(v);
    const DeviceArray<uint32_t> at(places);
    const DeviceArray<uint8_t> pages(
        std::vector<uint8_t>(num_pages * page_bytes, 0xa5));
    KvAppendArgs args;
    args.kv.pages = reinterpret_cast<std::byte*>(pages.get());
    args.kv.page_bytes = page_bytes;
    args.kv.k_offset = k_offset;
    args.kv.v_offset = v_offset;
    args.kv.num_kv_heads = static_cast<uint32_t>(num_heads);
    args.kv.k_width = static_cast<uint32_t>(k_width);
    args.kv.v_width = static_cast<uint32_t>(v_width);
    args.num_tokens = static_cast<uint32_t>(places.size());
    args.places = at.get();
    args.k = keys.get();
    args.v = values.get();
    launch(args, nullptr);
    if (!TakeFault().empty()) return {};
    return pages.Read();
  }
};

TEST(KvAppend, WritesItsPlacesAndNothingElse) {
  for (const AppendCase& append :
       {AppendCase(1, 32, 32, {5}), AppendCase(3, 80, 48, {130, 64, 63}),
        AppendCase(2, 256, 128, {0, 191, 64, 65, 66, 1, 2, 3})}) {
    EXPECT_EQ(append.Run(Launch), append.Right()) << append.k_width;
  }
}

TEST(KvAppend, WhatF16CannotHoldIsNan) {
  AppendCase append(1, 32, 32, {0});
  append.k[3] = 65520.0f;  // the least that rounds to infinity
  append.k[4] = 65519.0f;
  append.k[5] = kInfinity;
  append.v[6] = -1e30f;
  append.v[7] = kNan;
  append.v[8] = 1e-9f;
  const std::vector<uint8_t> pages = append.Run(Launch);
  EXPECT_EQ(pages, append.Right());
  const auto at = [&](size_t offset, size_t i) {
    uint16_t half = 0;
    std::memcpy(&half, &pages[offset + i * 2], sizeof half);
    return F16ToF32(half);
  };
  EXPECT_TRUE(std::isnan(at(append.k_offset, 3)));
  EXPECT_EQ(at(append.k_offset, 4), 65504.0f);
  EXPECT_TRUE(std::isnan(at(append.k_offset, 5)));
  EXPECT_TRUE(std::isnan(at(append.v_offset, 6)));
  EXPECT_TRUE(std::isnan(at(append.v_offset, 7)));
  EXPECT_EQ(at(append.v_offset, 8), 0.0f);
}

#ifdef TC_CUDA_ON_HOST

bool IsAppendRight(LaunchFn<KvAppendArgs> launch) {
  static const AppendCase append(3, 80, 48, {130, 64, 63});
  static const std::vector<uint8_t> right = append.Right();
  return append.Run(launch) == right;
}

TEST(KvAppend, NoOrderOfThreadsChangesIt) {
  ForEachSchedule(20, [](uint64_t seed) {
    EXPECT_TRUE(IsAppendRight(Launch)) << "seed " << seed;
  });
}

TEST(KvAppend, MutantsAreNoticed) {
  ExpectAllNoticed<KvAppendArgs>(MutantsOfKvAppend(), 0, 0, 2, IsAppendRight);
}

TEST(KvAppendLongDraws, MutantsAreNoticedUnderEverySeed) {
  ExpectAllNoticed<KvAppendArgs>(MutantsOfKvAppend(), 0, 2, 8, IsAppendRight);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
