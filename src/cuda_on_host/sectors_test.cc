#include "cuda_on_host/checker.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "cuda_on_host/small_kernels.h"
#include "cuda_on_host/testing.h"

namespace thermocline::cuda_on_host {
namespace {

class Sectors : public DeviceTest {};

// 32 floats of a warp: side by side 128 bytes, else up to a sector each.
TEST_F(Sectors, AreCountedPerAccessOfAWarp) {
  constexpr struct {
    int stride;
    uint64_t sectors;
  } kCases[] = {{0, 1}, {1, 4}, {2, 8}, {8, 32}, {100, 32}};
  for (const auto& [stride, sectors] : kCases) {
    Options options;
    options.count_sectors = true;
    options.seed = static_cast<uint64_t>(stride);
    SetOptions(options);
    float* x = AllocateZero<float>(31 * 100 + 1);
    float* y = AllocateZero<float>(32);
    for (int i = 0; i < 3; ++i) LaunchStrided(x, stride, y);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    const Traffic read = GetTraffic("Strided", x);
    EXPECT_EQ(read.requests, 3u);
    EXPECT_EQ(read.sectors, 3 * sectors) << "stride " << stride;
    EXPECT_EQ(read.bytes, 3u * 128);
    EXPECT_EQ(GetTraffic("Strided", y).sectors, 3u * 4);
    EXPECT_EQ(GetTraffic("Increment", x).requests, 0u);
  }
}

}  // namespace
}  // namespace thermocline::cuda_on_host
