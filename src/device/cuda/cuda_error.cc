#include "device/cuda/cuda_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace thermocline::device {
namespace {

// What the kernels are compiled for (cmake/TcCuda.cmake).
constexpr int kOldestMajor = 7, kOldestMinor = 5;
// With which CUDA they are.
constexpr int kCudaVersion = 13000;

// By number: CUDA has many more than those that the header played by the host
// names. What is not known to end with its call is taken for the worst.
constexpr int kOfArguments[] = {
    cudaErrorInvalidValue,
    cudaErrorInvalidConfiguration,
    16,   // host pointer
    17,   // device pointer
    21,   // direction of a copy
    304,  // a call of the operating system
    cudaErrorInvalidResourceHandle,
    401,  // state
    701,  // more registers or shared memory than there are
    cudaErrorStreamCaptureUnsupported,
    cudaErrorStreamCaptureInvalidated,
    902,  // and what else a stream that captures cannot do
    903,
    904,
    905,
    906,
    907,
    908};
constexpr int kOfSupport[] = {cudaErrorInsufficientDriver,
                              36,  // the driver lacks the call
                              98,  // no such kernel
                              cudaErrorNoDevice,
                              cudaErrorInvalidDevice,
                              200,  // kernels for another card
                              209,
                              222,
                              800,  // not permitted
                              801,  // not supported
                              803,  // the driver's parts are of two versions
                              804};

std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

CudaFailure FailureOf(cudaError_t error) {
  const auto is_one_of = [error](std::span<const int> errors) {
    return std::ranges::find(errors, static_cast<int>(error)) != errors.end();
  };
  if (error == cudaSuccess) return CudaFailure::kNone;
  if (error == cudaErrorMemoryAllocation) return CudaFailure::kMemory;
  if (is_one_of(kOfArguments)) return CudaFailure::kArgument;
  if (is_one_of(kOfSupport)) return CudaFailure::kUnsupported;
  return CudaFailure::kLost;
}

std::string CudaWords(cudaError_t error) {
  return fmt::format("{} ({}, {})", cudaGetErrorString(error),
                     cudaGetErrorName(error), static_cast<int>(error));
}

std::string WhyNoCuda(cudaError_t error, int driver_version) {
  if (error == cudaErrorInsufficientDriver && driver_version > 0) {
    return fmt::format(
        "the NVIDIA driver is too old: it runs CUDA {}, this program needs {}",
        VersionText(driver_version), VersionText(kCudaVersion));
  }
  if (error == cudaErrorInsufficientDriver) return "no NVIDIA driver";
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return driver_version > 0 ? "no NVIDIA GPU" : "no NVIDIA driver";
  }
  return "CUDA does not start: " + CudaWords(error);
}

std::string WhyCardIsRefused(std::string_view name, int major, int minor) {
  if (major > kOldestMajor ||
      (major == kOldestMajor && minor >= kOldestMinor)) {
    return "";
  }
  return fmt::format(
      "{} is too old: its compute capability is {}.{}, the oldest that can be "
      "used {}.{} (Turing, 2018)",
      name, major, minor, kOldestMajor, kOldestMinor);
}

}  // namespace thermocline::device
