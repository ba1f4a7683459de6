// Built with the played runtime and, where nvcc is, with CUDA's own too: a
// machine without a driver gets an answer.
#include <gtest/gtest.h>

#include <string>

#include "device/cuda/find_cuda.h"

namespace thermocline::device {
namespace {

TEST(CudaFound, ThereIsOneOrAReason) {
  const Found found = FindCudaDevices();
  EXPECT_EQ(found.devices.empty(), !found.why_none.empty());
  const auto opened = OpenCuda(0);
  if (found.devices.empty()) {
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().message, "cuda0: " + found.why_none);
  } else {
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
  }
}

TEST(CudaFound, NoMoreCanBeOpenedThanThereAre) {
  const auto opened = OpenCuda(1000);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(opened.error().message.find("cuda1000: "), 0u)
      << opened.error().message;
}

}  // namespace
}  // namespace thermocline::device
