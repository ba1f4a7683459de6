#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_on_host/small_kernels.h"
#include "cuda_on_host/testing.h"

namespace thermocline::cuda_on_host {
namespace {

using testing::HasSubstr;

class Runtime : public DeviceTest {};

TEST_F(Runtime, TellsOfOneDevice) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "cuda_on_host");
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation),
               "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(998)),
               "unrecognized error code");
}

TEST_F(Runtime, MemoryIsCountedAndRunsOut) {
  size_t before = 0, free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(before - free, 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
  void* other = nullptr;
  EXPECT_EQ(cudaMalloc(&other, total), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, before);
}

TEST_F(Runtime, CopiesWantTheDevicesMemoryAndStayInside) {
  int host[4] = {1, 2, 3, 4};
  int* y = Allocate<int>(4);
  EXPECT_EQ(cudaMemcpyAsync(host, host, 4, cudaMemcpyDeviceToHost, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, host, 4, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 4, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(y, host, 16, cudaMemcpyHostToDevice, nullptr),
            cudaSuccess);
  EXPECT_EQ(Read(y, 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(cudaMemsetAsync(y + 1, 0, 16, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFault(), HasSubstr("leaves an allocation of 16"));
}

TEST_F(Runtime, WhatNothingWroteIsNoGoodToAKernel) {
  int* y = Allocate<int>(8);
  EXPECT_EQ(cudaMemsetAsync(y, 0, 28, nullptr), cudaSuccess);
  LaunchIncrement(y, 7, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  LaunchIncrement(y, 8, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFault(), HasSubstr("memory that nothing wrote"));
}

TEST_F(Runtime, FreedMemoryIsNotTheDevicesAnyMore) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 128), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  LaunchIncrement(static_cast<int*>(memory), 32, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFault(), HasSubstr("not the device's"));
}

TEST_F(Runtime, ALaunchThatNoGpuTakesIsAnErrorOfTheLaunchAlone) {
  int* y = AllocateZero<int>(1);
  LaunchTooManyThreads(y);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Runtime, AKernelsFaultSticksUntilTheDeviceIsRevived) {
  LaunchIncrement(nullptr, 1, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorLaunchFailure);
  EXPECT_NE(TakeFault(), "");
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  ReviveDevice(1, false);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// What a caller does that looks at every error: its first one.
cudaError_t RunLoop(void* memory, int* num_calls) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  *num_calls = 1;
  for (int i = 0; i < 12 && error == cudaSuccess; ++i) {
    error = cudaMemsetAsync(memory, i, 64, stream);
    ++*num_calls;
    if (error != cudaSuccess) break;
    LaunchIncrement(static_cast<int*>(memory), 16, stream);
    error = cudaGetLastError();  // not counted: it cannot fail
    ++*num_calls;
    if (error != cudaSuccess) break;
    error = cudaStreamSynchronize(stream);
    ++*num_calls;
  }
  return error;
}

TEST_F(Runtime, EveryCallCanFail) {
  void* memory = Allocate<char>(64);
  int num_calls = 0;
  ASSERT_EQ(RunLoop(memory, &num_calls), cudaSuccess);
  ASSERT_EQ(num_calls, 37);
  for (const cudaError_t error :
       {cudaErrorMemoryAllocation, cudaErrorLaunchFailure, cudaErrorUnknown}) {
    for (int n = 1; n <= num_calls; ++n) {
      ReviveDevice(static_cast<uint64_t>(n), n % 2 == 0);
      FailCall(static_cast<uint64_t>(n), error);
      int failed_at = 0;
      EXPECT_EQ(RunLoop(memory, &failed_at), error) << n;
      EXPECT_EQ(failed_at, n);
      // A lost device stays lost.
      EXPECT_EQ(cudaDeviceSynchronize(),
                error == cudaErrorMemoryAllocation ? cudaSuccess : error);
    }
  }
}

}  // namespace
}  // namespace thermocline::cuda_on_host
