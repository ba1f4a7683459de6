// What tests of kernels share. They run on cuda_on_host, under its checker, and
// the same files on a GPU.
#ifndef THERMOCLINE_KERNELS_CUDA_TESTING_H_
#define THERMOCLINE_KERNELS_CUDA_TESTING_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/test_mutants.h"

#ifdef TC_CUDA_ON_HOST
#include "cuda_on_host/control.h"
#endif

namespace thermocline::cuda {

// What the device failed of since the last time; empty: nothing. It waits for
// all that was launched, and the device works again afterwards, where it can.
inline std::string TakeFault() {
  cudaError_t error = cudaGetLastError();
  const cudaError_t after = cudaDeviceSynchronize();
  if (error == cudaSuccess) error = after;
  if (error == cudaSuccess) return "";
  std::string fault = cudaGetErrorString(error);
#ifdef TC_CUDA_ON_HOST
  fault += ": " + cuda_on_host::TakeFault();
  cuda_on_host::ReviveDevice(1, false);
#endif
  return fault;
}

// Memory of the device, poisoned until it is written.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(memory);
#ifndef TC_CUDA_ON_HOST
    // On the host a byte that nothing wrote is known as such.
    EXPECT_EQ(cudaMemsetAsync(data_, 0xff, count * sizeof(T), nullptr),
              cudaSuccess);
#endif
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T),
                              cudaMemcpyHostToDevice, nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  // Of a failed device it cannot be freed, and need not be.
  ~DeviceArray() { (void)cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }

  std::vector<T> Read() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T),
                              cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return values;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// Calls run(seed) under orders of threads, blocks and streams that differ by
// seed. On a GPU there is one order, its own.
template <typename Run>
void ForEachSchedule([[maybe_unused]] uint64_t num_seeds, const Run& run) {
#ifdef TC_CUDA_ON_HOST
  for (uint64_t seed = 0; seed < num_seeds; ++seed) {
    cuda_on_host::Options options;
    options.seed = seed;
    options.preempt = seed % 2 == 0 ? 0 : 8;
    cuda_on_host::SetOptions(options);
    cuda_on_host::ReviveDevice(seed, seed % 3 == 0);
    run(seed);
  }
#else
  run(0);
#endif
}

#ifdef TC_CUDA_ON_HOST

// Under each seed: `is_noticed(launch)`, which runs it and says whether that
// failed or came to something else, is false for the sound one, and true for
// each mutant and for the sound one without one of its barriers, fences and
// waits. The kernel has `num_ordering_calls` of these.
template <typename Launch, typename IsNoticed>
void ExpectMutantsNoticed(uint64_t first_seed, uint64_t num_seeds, Launch sound,
                          std::span<const Mutant<Launch>> mutants,
                          size_t num_ordering_calls,
                          const IsNoticed& is_noticed) {
  for (uint64_t seed = first_seed; seed < first_seed + num_seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    cuda_on_host::Options options;
    options.seed = seed;
    options.preempt = seed % 2 == 0 ? 0 : 8;
    cuda_on_host::SetOptions(options);
    ASSERT_FALSE(is_noticed(sound));
    const auto calls = cuda_on_host::GetStats().ordering_calls;
    ASSERT_EQ(calls.size(), num_ordering_calls);
    for (const Mutant<Launch>& mutant : mutants) {
      cuda_on_host::SetOptions(options);
      EXPECT_TRUE(is_noticed(mutant.launch)) << mutant.name;
    }
    for (const std::string& call : calls) {
      options.dropped_call = call;
      cuda_on_host::SetOptions(options);
      EXPECT_TRUE(is_noticed(sound)) << "without that of " << call;
    }
  }
  cuda_on_host::SetOptions({});
}

#endif  // TC_CUDA_ON_HOST

// Of bits (FNV-1a): what a kernel comes to on the host is what a GPU has to.
inline uint64_t HashOf(std::span<const float> values) {
  uint64_t hash = 14695981039346656037u;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211u;
  }
  return hash;
}

// Sum of squared differences over that of the reference.
inline double Nmse(std::span<const float> values,
                   std::span<const double> reference) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(values[i]) - reference[i];
    difference += d * d;
    size += reference[i] * reference[i];
  }
  return size == 0 ? difference : difference / size;
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_TESTING_H_
