#include "cuda_on_host/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_on_host/small_kernels.h"
#include "cuda_on_host/testing.h"

namespace thermocline::cuda_on_host {
namespace {

using testing::HasSubstr;

class Grid : public DeviceTest {
 protected:
  Grid() {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, 8, cudaHostAllocMapped), cudaSuccess);
    flag_ = static_cast<uint32_t*>(memory);
    flag_[0] = flag_[1] = 0;
  }
  ~Grid() override {
    ReviveDevice(1, false);
    EXPECT_EQ(cudaFreeHost(flag_), cudaSuccess);
  }

  uint32_t* flag_;  // mapped, and the kernel's answer after it
};

TEST_F(Grid, AKernelWaitsForTheHostsFlag) {
  Options options;
  options.preempt = 4;
  SetOptions(options);
  void* on_device = nullptr;
  ASSERT_EQ(cudaHostGetDevicePointer(&on_device, flag_, 0), cudaSuccess);
  auto* words = static_cast<uint32_t*>(on_device);
  LaunchWaitForFlag(words, words + 1);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  __atomic_store_n(flag_, 7u, __ATOMIC_RELEASE);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(flag_[1], 7u);
}

TEST_F(Grid, AnEndlessWaitUsesUpItsAccesses) {
  Options options;
  options.max_accesses = 10000;
  SetOptions(options);
  LaunchWaitForFlag(flag_, flag_ + 1);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFault(), HasSubstr("has used up its 10000 accesses"));
}

TEST_F(Grid, WithoutChecksKernelsRunAndNothingIsCounted) {
  Options options;
  options.check = false;
  options.count_sectors = true;
  SetOptions(options);
  int* y = AllocateZero<int>(40);
  LaunchIncrement(y, 40, nullptr);
  EXPECT_EQ(Read(y, 40), std::vector<int>(40, 1));
  EXPECT_EQ(GetStats().accesses, 0u);
  EXPECT_GT(GetStats().switches, 0u);
  EXPECT_EQ(GetTraffic("Increment", y).requests, 0u);
}

}  // namespace
}  // namespace thermocline::cuda_on_host
