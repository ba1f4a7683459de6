#include "cuda_on_host/small_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "cuda_on_host/control.h"
#include "cuda_on_host/shadow/cuda_runtime_api.h"

namespace thermocline::cuda_on_host {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 10;

// What the checker says of one launch.
std::string FaultOf(const PlantedFault& kernel, uint64_t seed) {
  Options options;
  options.seed = seed;
  options.preempt = seed % 2 == 0 ? 8 : 0;
  SetOptions(options);
  ReviveDevice(seed, false);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 256), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 256, nullptr), cudaSuccess);
  kernel.launch(static_cast<float*>(memory));
  const cudaError_t error = cudaStreamSynchronize(nullptr);
  const std::string fault = TakeFault();
  EXPECT_EQ(error, fault.empty() ? cudaSuccess : cudaErrorLaunchFailure);
  ReviveDevice(seed, false);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  return fault;
}

TEST(PlantedFaults, EachIsFoundUnderEverySeed) {
  for (const PlantedFault& kernel : PlantedFaults()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      EXPECT_THAT(FaultOf(kernel, seed), HasSubstr(kernel.message))
          << kernel.name << ", seed " << seed;
    }
  }
}

TEST(PlantedFaults, SoundKernelsPass) {
  for (const PlantedFault& kernel : SoundKernels()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      EXPECT_EQ(FaultOf(kernel, seed), "") << kernel.name << ", seed " << seed;
    }
  }
}

TEST(PlantedFaults, TheMessageNamesKernelBlockThread) {
  for (const PlantedFault& kernel : PlantedFaults()) {
    if (kernel.name != "a vector at a place for floats") continue;
    EXPECT_THAT(FaultOf(kernel, 0),
                testing::StartsWith("MisalignVector, block (0,0,0) thread "
                                    "(0,0,0): an access of 16 bytes at "));
  }
}

TEST(PlantedFaults, TheReferenceSwitchFindsThemToo) {
  UseReferenceSwitch(true);
  for (const PlantedFault& kernel : PlantedFaults()) {
    EXPECT_THAT(FaultOf(kernel, 3), HasSubstr(kernel.message)) << kernel.name;
  }
  UseReferenceSwitch(false);
}

}  // namespace
}  // namespace thermocline::cuda_on_host
