#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/test_rows.h"
#include "kernels/cuda/testing.h"
#include "kernels/device_ops.h"

namespace thermocline::cuda {

std::span<const Mutant<decltype(&LaunchQuantizeRows)>>
MutantsOfLaunchQuantizeRows();

namespace {

constexpr size_t kWidth = 32 * 7;  // of blocks of warps, the last not full
constexpr size_t kRows = 3;
constexpr size_t kStride = 288;  // 7 * 40 bytes, rounded up

std::vector<float> TestRows() {
  Random random(3);
  std::vector<float> x = RandomFloats(random, kRows * kWidth);
  // Blocks of zeros, of subnormals, with NaN, with infinity.
  for (size_t i = 0; i < 32; ++i) {
    x[i] = 0.0f;
    x[32 + i] = static_cast<float>(i) * 7e-45f;
  }
  x[kWidth + 40] = std::numeric_limits<float>::quiet_NaN();
  x[kWidth + 70] = -std::numeric_limits<float>::infinity();
  return x;
}

std::vector<std::byte> Expected(const std::vector<float>& x) {
  std::vector<std::byte> rows(kRows * kStride);
  for (size_t b = 0; b < x.size() / 32; ++b) {
    float largest = 0.0f;
    for (size_t i = 0; i < 32; ++i) {
      const float v = std::fabs(x[b * 32 + i]);
      if (std::isnan(v) || v > largest) largest = v;
    }
    const float scale = largest / 127.0f;
    int16_t sums[2] = {};
    std::byte* row = &rows[b * 32 / kWidth * kStride];
    const size_t in_row = b % (kWidth / 32);
    for (size_t i = 0; i < 32 && std::isfinite(scale) && scale > 0; ++i) {
      const float q = std::nearbyint(x[b * 32 + i] / scale);
      const auto quant =
          static_cast<int8_t>(std::fmax(-127.0f, std::fmin(127.0f, q)));
      sums[i / 16] = static_cast<int16_t>(sums[i / 16] + quant);
      std::memcpy(row + in_row * 32 + i, &quant, 1);
    }
    std::memcpy(row + kWidth + in_row * 4, &scale, 4);
    std::memcpy(row + kWidth + kWidth / 8 + in_row * 4, sums, 4);
  }
  return rows;
}

// What is stored where, padding aside; NaN by its kind, not its bits.
bool IsRight(const std::vector<std::byte>& rows,
             const std::vector<std::byte>& expected) {
  for (size_t r = 0; r < kRows; ++r) {
    const std::byte* a = &rows[r * kStride];
    const std::byte* b = &expected[r * kStride];
    if (std::memcmp(a, b, kWidth) != 0) return false;
    for (size_t i = 0; i < kWidth / 32; ++i) {
      float scales[2];
      std::memcpy(&scales[0], a + kWidth + i * 4, 4);
      std::memcpy(&scales[1], b + kWidth + i * 4, 4);
      const bool are_nan = std::isnan(scales[0]) && std::isnan(scales[1]);
      if (!are_nan && scales[0] != scales[1]) return false;
    }
    const size_t sums = kWidth + kWidth / 8;
    if (std::memcmp(a + sums, b + sums, kWidth / 8) != 0) return false;
  }
  return true;
}

// Empty: right.
std::string RunCase(decltype(&LaunchQuantizeRows) launch) {
  static const std::vector<float> x = TestRows();
  static const std::vector<std::byte> expected = Expected(x);
  const DeviceArray<float> device_x(x);
  // A mutant may leave some of it unwritten, which cannot be read.
  const DeviceArray<std::byte> rows(
      std::vector<std::byte>(kRows * kStride, std::byte{0x55}));
  launch({kWidth, kRows, device_x.get(), rows.get()}, nullptr);
  std::string fault = TakeFault();
  if (fault.empty() && !IsRight(rows.Read(), expected)) fault = "wrong";
  return fault;
}

TEST(QuantizeRows, EqualsTheReference) {
  static_assert(kernels::QuantizedRowsBytes(kWidth, kRows) == kRows * kStride);
  ForEachSchedule(6, [&](uint64_t seed) {
    EXPECT_EQ(RunCase(LaunchQuantizeRows), "") << "seed " << seed;
  });
}

#ifdef TC_CUDA_ON_HOST

TEST(QuantizeRows, MutantsAreNoticed) {
  cuda_on_host::SetOptions({});
  for (const auto& mutant : MutantsOfLaunchQuantizeRows()) {
    EXPECT_NE(RunCase(mutant.launch), "") << mutant.name;
  }
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
