#include "device/cuda/cuda_error.h"

#include <gtest/gtest.h>

#include <string>

namespace thermocline::device {
namespace {

TEST(CudaError, WhyThereIsNone) {
  const struct {
    int error, driver_version;
    std::string why;
  } cases[] = {
      {35, 0, "no NVIDIA driver"},
      {100, 0, "no NVIDIA driver"},
      {100, 13000, "no NVIDIA GPU"},
      {0, 13010, "no NVIDIA GPU"},
      {35, 12040,
       "the NVIDIA driver is too old: it runs CUDA 12.4, this program needs "
       "13.0"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(
        WhyNoCuda(static_cast<cudaError_t>(one.error), one.driver_version),
        one.why);
  }
}

TEST(CudaError, OldCardsAreRefusedByName) {
  EXPECT_EQ(WhyCardIsRefused("Tesla T4", 7, 5), "");
  EXPECT_EQ(WhyCardIsRefused("NVIDIA A100", 8, 0), "");
  EXPECT_EQ(WhyCardIsRefused("NVIDIA B200", 10, 0), "");
  EXPECT_EQ(WhyCardIsRefused("Tesla V100", 7, 0),
            "Tesla V100 is too old: its compute capability is 7.0, the oldest "
            "that can be used 7.5 (Turing, 2018)");
  EXPECT_NE(WhyCardIsRefused("Tesla P40", 6, 1), "");
}

// What is not known to end with its call loses the device.
TEST(CudaError, WhatAnErrorMeans) {
  const struct {
    CudaFailure failure;
    int errors[6];
  } cases[] = {
      {CudaFailure::kNone, {0}},
      {CudaFailure::kMemory, {2, 2, 2, 2, 2, 2}},
      {CudaFailure::kArgument, {1, 9, 400, 701, 900, 901}},
      {CudaFailure::kUnsupported, {35, 36, 98, 100, 209, 801}},
      {CudaFailure::kLost, {46, 214, 700, 716, 719, 999}},
  };
  for (const auto& one : cases) {
    for (const int error : one.errors) {
      EXPECT_EQ(FailureOf(static_cast<cudaError_t>(error)), one.failure)
          << error;
    }
  }
}

}  // namespace
}  // namespace thermocline::device
