// What tests of the played device share.
#ifndef THERMOCLINE_CUDA_ON_HOST_TESTING_H_
#define THERMOCLINE_CUDA_ON_HOST_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "cuda_on_host/control.h"
#include "cuda_on_host/shadow/cuda_runtime_api.h"

namespace thermocline::cuda_on_host {

// Each test has a device without errors, orders or work from another.
class DeviceTest : public testing::Test {
 protected:
  DeviceTest() {
    ReviveDevice(1, false);
    SetOptions({});
  }
  ~DeviceTest() override {
    ReviveDevice(1, false);
    for (void* memory : memory_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
    ReviveDevice(1, false);
    SetOptions({});
  }

  // Freed at the end; nothing wrote it.
  template <typename T>
  T* Allocate(size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    memory_.push_back(memory);
    return static_cast<T*>(memory);
  }

  template <typename T>
  T* AllocateZero(size_t count) {
    T* memory = Allocate<T>(count);
    EXPECT_EQ(cudaMemsetAsync(memory, 0, count * sizeof(T), nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return memory;
  }

  template <typename T>
  static std::vector<T> Read(const T* memory, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), memory, count * sizeof(T),
                              cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return values;
  }

  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
              cudaSuccess);
    return stream;
  }

 private:
  std::vector<void*> memory_;
};

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_TESTING_H_
