// How every call of the runtime begins.
#ifndef THERMOCLINE_CUDA_ON_HOST_RUNTIME_CALL_H_
#define THERMOCLINE_CUDA_ON_HOST_RUNTIME_CALL_H_

#include <mutex>

#include "cuda_on_host/device.h"

// `device`, its lock until the call ends, and a return for errors from before.
#define TC_ENTER(device)                                                      \
  Device& device = Device::Get();                                             \
  std::unique_lock<std::mutex> lock;                                          \
  if (const cudaError_t error = (device).Enter(lock); error != cudaSuccess) { \
    return error;                                                             \
  }

// And the stream that a handle stands for.
#define TC_ENTER_WITH_STREAM(device, stream, handle)        \
  TC_ENTER(device)                                          \
  CUstream_st* stream = (device).StreamOf(handle);          \
  if (stream == nullptr) {                                  \
    return (device).Return(cudaErrorInvalidResourceHandle); \
  }

#endif  // THERMOCLINE_CUDA_ON_HOST_RUNTIME_CALL_H_
