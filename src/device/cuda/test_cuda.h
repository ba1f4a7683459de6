// What tests of the CUDA device share. They run on cuda_on_host, and but for
// those that want faults and orders the same files run on a GPU.
#ifndef THERMOCLINE_DEVICE_CUDA_TEST_CUDA_H_
#define THERMOCLINE_DEVICE_CUDA_TEST_CUDA_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "device/cuda/find_cuda.h"
#include "device/device.h"

#ifdef TC_CUDA_ON_HOST
#include "cuda_on_host/control.h"
#endif

namespace thermocline::device {

// From a runtime without errors from before. Work is done in an order from the
// seed: as soon as it can be, or, if lazy, only while someone waits. Unchecked,
// kernels run twice as fast.
inline std::unique_ptr<Device> OpenPlayed([[maybe_unused]] uint64_t seed,
                                          [[maybe_unused]] bool lazy,
                                          [[maybe_unused]] bool check = true) {
#ifdef TC_CUDA_ON_HOST
  cuda_on_host::ReviveDevice(seed, lazy);
  cuda_on_host::Options options;
  options.seed = seed;
  options.check = check;
  cuda_on_host::SetOptions(options);
#endif
  auto device = OpenCuda(0);
  EXPECT_TRUE(device.has_value()) << device.error().message;
  return device.has_value() ? std::move(*device) : nullptr;
}

// Each test leaves a runtime that works to the next.
class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest() : device_(OpenPlayed(1, false)) {}
#ifdef TC_CUDA_ON_HOST
  ~CudaDeviceTest() override {
    cuda_on_host::ReviveDevice(1, false);
    device_.reset();
    (void)cuda_on_host::TakeFault();
    cuda_on_host::SetOptions({});
  }
#endif

  template <typename R>
  static void ExpectError(const R& result, ErrorCode code,
                          const std::string& part) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(part), std::string::npos)
        << result.error().message;
  }

  std::unique_ptr<Device> device_;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_CUDA_TEST_CUDA_H_
