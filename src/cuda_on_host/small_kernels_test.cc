// The kernel language: functions of warps and threads, indices.
#include "cuda_on_host/small_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <climits>
#include <cstdint>
#include <vector>

#include "cuda_on_host/testing.h"

namespace thermocline::cuda_on_host {
namespace {

class KernelLanguage : public DeviceTest {};

int ExpectedOfWarp(int row, int lane) {
  const int section = lane & ~15, in_section = lane & 15;
  switch (row) {
    case 0:
      return 5;
    case 1:
      return (lane & ~7) | 5;
    case 2:
      return lane ^ 3;
    case 3:
      return in_section < 2 ? lane : lane - 2;
    case 4:
      return in_section + 3 > 15 ? lane : section + in_section + 3;
    case 5:
      return static_cast<int>(0x49249249u);
    case 6:
      return 1;
    case 7:
      return 1;
    default:
      return static_cast<int>(lane < 16 ? 0x0000aaaau : 0xaaaa0000u);
  }
}

TEST_F(KernelLanguage, WarpFunctions) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Options options;
    options.seed = seed;
    SetOptions(options);
    int* results = Allocate<int>(32 * kWarpRows);
    LaunchWarpFunctions(results);
    const std::vector<int> values = Read(results, 32 * kWarpRows);
    ASSERT_EQ(TakeFault(), "");
    for (int row = 0; row < kWarpRows; ++row) {
      for (int lane = 0; lane < 32; ++lane) {
        EXPECT_EQ(values[row * 32 + lane], ExpectedOfWarp(row, lane))
            << "row " << row << ", lane " << lane;
      }
    }
  }
}

TEST_F(KernelLanguage, Scalars) {
  int* results = Allocate<int>(kNumScalars);
  LaunchScalars(results);
  const std::vector<int> expected = {8, 31, 32, 0, 4,
                                     // 1 * 4 - 1 * 3 - 128 * 2 + 127 * 1 + 10
                                     -118, 2, -4, INT_MAX, INT_MIN, 0,
                                     std::bit_cast<int>(3.25f), 43, 1, 5, 7, 9};
  EXPECT_EQ(Read(results, kNumScalars), expected);
  EXPECT_EQ(TakeFault(), "");
}

TEST_F(KernelLanguage, EveryThreadOfThreeDimensionsRunsOnce) {
  constexpr size_t kCount = 2 * 3 * 2 * 4 * 3 * 5;
  int* y = AllocateZero<int>(kCount);
  LaunchIncrement3d(y, nullptr);
  EXPECT_EQ(Read(y, kCount), std::vector<int>(kCount, 1));
}

}  // namespace
}  // namespace thermocline::cuda_on_host
