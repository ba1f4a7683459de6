// CUDA's calls (shadow/cuda_runtime_api.h) on the device of device.h.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda_on_host/block.h"
#include "cuda_on_host/checker.h"
#include "cuda_on_host/device.h"

namespace on_host = thermocline::cuda_on_host;

namespace {

cudaError_t Allocate(void** memory, size_t bytes, bool mapped) {
  TC_ENTER(device);
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  if (!mapped && bytes > on_host::Device::kMemoryBytes - device.used_bytes) {
    return device.Return(cudaErrorMemoryAllocation);
  }
  auto allocation = std::make_shared<on_host::Allocation>(bytes, mapped);
  *memory = allocation->base;
  if (!mapped) device.used_bytes += bytes;
  const auto end = reinterpret_cast<uintptr_t>(allocation->base) + bytes;
  device.allocations.emplace(end, std::move(allocation));
  return cudaSuccess;
}

// As on a GPU, it waits until all is done that could use the memory.
cudaError_t Release(void* memory, bool mapped) {
  on_host::Device& device = on_host::Device::Get();
  std::unique_lock<std::mutex> lock;
  if (const cudaError_t error = device.Enter(lock); error != cudaSuccess) {
    if (error == device.sticky) device.released_late.push_back(memory);
    return error;
  }
  if (memory == nullptr) return cudaSuccess;
  const on_host::Allocation* allocation =
      on_host::FindAllocation(device.allocations, memory);
  if (allocation == nullptr || allocation->base != memory ||
      allocation->mapped != mapped) {
    return device.Return(cudaErrorInvalidValue);
  }
  const cudaError_t error =
      device.WaitUntil(lock, [&] { return device.AreAllIdle(); });
  if (error != cudaSuccess) return error;
  device.Forget(*allocation);
  return cudaSuccess;
}

bool IsDevices(const on_host::Device& device, const void* address) {
  return on_host::FindAllocation(device.allocations, address) != nullptr;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  TC_ENTER(device);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  TC_ENTER(device);
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  TC_ENTER(device);
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  TC_ENTER(device);
  return device.Return(index == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  TC_ENTER(device);
  if (index != 0) return device.Return(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "cuda_on_host");
  properties->totalGlobalMem = on_host::Device::kMemoryBytes;
  properties->sharedMemPerBlock = thermocline::cuda_on_host::kMaxSharedBytes;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = thermocline::cuda_on_host::kMaxBlockThreads;
  properties->major = 8;
  properties->minor = 0;
  properties->multiProcessorCount = 1;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  TC_ENTER(device);
  *free = on_host::Device::kMemoryBytes - device.used_bytes;
  *total = on_host::Device::kMemoryBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  TC_ENTER(device);
  const cudaError_t error =
      device.WaitUntil(lock, [&] { return device.AreAllIdle(); });
  for (const auto& stream : device.streams) {
    device.host_clock.Join(stream->clock);
  }
  return error;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return Allocate(memory, bytes, false);
}

cudaError_t cudaFree(void* memory) { return Release(memory, false); }

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return Allocate(memory, bytes, true);
}

cudaError_t cudaFreeHost(void* memory) { return Release(memory, true); }

cudaError_t cudaHostGetDevicePointer(void** pointer, void* host, unsigned) {
  TC_ENTER(device);
  const on_host::Allocation* allocation =
      on_host::FindAllocation(device.allocations, host);
  if (allocation == nullptr || !allocation->mapped) {
    return device.Return(cudaErrorInvalidValue);
  }
  *pointer = host;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  const bool from_device =
      kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (bytes == 0) return cudaSuccess;
  if ((from_device && !IsDevices(device, from)) ||
      (to_device && !IsDevices(device, to))) {
    return device.Return(cudaErrorInvalidValue);
  }
  device.Give(*stream, [=] {
    if (!on_host::CheckTransfer(from, bytes, false) ||
        !on_host::CheckTransfer(to, bytes, true)) {
      return;
    }
    std::memmove(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (bytes == 0) return cudaSuccess;
  if (!IsDevices(device, to)) return device.Return(cudaErrorInvalidValue);
  device.Give(*stream, [=] {
    if (on_host::CheckTransfer(to, bytes, true)) std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  std::lock_guard lock(on_host::Device::Get().mutex);
  // What the device died of comes back at every call.
  return std::exchange(on_host::Device::Get().last,
                       on_host::Device::Get().sticky);
}

cudaError_t cudaPeekAtLastError() {
  std::lock_guard lock(on_host::Device::Get().mutex);
  return on_host::Device::Get().last;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define TC_NAME(name) \
  case name:          \
    return #name;
    TC_NAME(cudaSuccess)
    TC_NAME(cudaErrorInvalidValue)
    TC_NAME(cudaErrorMemoryAllocation)
    TC_NAME(cudaErrorInvalidConfiguration)
    TC_NAME(cudaErrorInsufficientDriver)
    TC_NAME(cudaErrorNoDevice)
    TC_NAME(cudaErrorInvalidDevice)
    TC_NAME(cudaErrorInvalidResourceHandle)
    TC_NAME(cudaErrorNotReady)
    TC_NAME(cudaErrorIllegalAddress)
    TC_NAME(cudaErrorLaunchFailure)
    TC_NAME(cudaErrorStreamCaptureUnsupported)
    TC_NAME(cudaErrorStreamCaptureInvalidated)
    TC_NAME(cudaErrorUnknown)
#undef TC_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}
