#include "device/cuda/cuda_error.h"

#include <fmt/format.h>

namespace thermocline::device {
namespace {

// What the kernels are compiled for (cmake/TcCuda.cmake).
constexpr int kOldestMajor = 7, kOldestMinor = 5;
// With which CUDA they are.
constexpr int kCudaVersion = 13000;

std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

// By number: CUDA has many more than those that the header played by the host
// names. What is not known to end with its call is taken for the worst.
CudaFailure FailureOf(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case cudaSuccess:
      return CudaFailure::kNone;
    case cudaErrorMemoryAllocation:
      return CudaFailure::kMemory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case 16:   // host pointer
    case 17:   // device pointer
    case 21:   // direction of a copy
    case 304:  // a call of the operating system
    case cudaErrorInvalidResourceHandle:
    case 401:  // state
    case 701:  // more registers or shared memory than there are
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case 902:  // and what else a stream that captures cannot do
    case 903:
    case 904:
    case 905:
    case 906:
    case 907:
    case 908:
      return CudaFailure::kArgument;
    case cudaErrorInsufficientDriver:
    case 36:  // the driver lacks the call
    case 98:  // no such kernel
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case 200:  // kernels for another card
    case 209:
    case 222:
    case 800:  // not permitted
    case 801:  // not supported
    case 803:  // the driver's parts are of two versions
    case 804:
      return CudaFailure::kUnsupported;
    default:
      return CudaFailure::kLost;
  }
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
