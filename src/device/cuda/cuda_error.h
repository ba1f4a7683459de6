// What an error of CUDA's runtime means for us.
#ifndef THERMOCLINE_DEVICE_CUDA_CUDA_ERROR_H_
#define THERMOCLINE_DEVICE_CUDA_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace thermocline::device {

enum class CudaFailure {
  kNone,
  kMemory,       // there is not enough; all goes on
  kArgument,     // this call alone was given what it must not be given
  kUnsupported,  // the card or the driver cannot do it
  kLost,         // every call from now on fails: the context is gone
};
CudaFailure FailureOf(cudaError_t error);

// CUDA's own words: "an illegal memory access was encountered
// (cudaErrorIllegalAddress, 700)".
std::string CudaWords(cudaError_t error);

// Why no device can be used, from what cudaGetDeviceCount returned and the
// newest CUDA that the driver runs (1000 * major + 10 * minor; 0: no driver).
std::string WhyNoCuda(cudaError_t error, int driver_version);

// Of a card by its compute capability; empty: it can be used.
std::string WhyCardIsRefused(std::string_view name, int major, int minor);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_CUDA_CUDA_ERROR_H_
