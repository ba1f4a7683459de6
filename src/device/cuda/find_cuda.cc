#include "device/cuda/find_cuda.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"

namespace thermocline::device {
namespace {

// Of a card, its context included; an error says why it cannot be used.
Result<DeviceInfo> InfoOfCard(int index) {
  const std::string id = fmt::format("cuda{}", index);
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return Fail(ErrorCode::kIo, "{}: CUDA does not describe it: {}", id,
                CudaWords(error));
  }
  const std::string why =
      WhyCardIsRefused(properties.name, properties.major, properties.minor);
  if (!why.empty()) return Fail(ErrorCode::kUnsupported, "{}: {}", id, why);
  TC_RETURN_IF_ERROR(UseOnThisThread(index, id));
  size_t free = 0, total = 0;
  if (const cudaError_t error = cudaMemGetInfo(&free, &total);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return Fail(ErrorCode::kIo, "{}: {} does not start: {}", id,
                properties.name, CudaWords(error));
  }
  return DeviceInfo{.id = id,
                    .name = properties.name,
                    .total_bytes = total,
                    .free_bytes = free,
                    .major = properties.major,
                    .minor = properties.minor};
}

// How many cards there are; if none, why.
int CountCards(std::string* why_none) {
  int driver_version = 0;
  if (cudaDriverGetVersion(&driver_version) != cudaSuccess) driver_version = 0;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  (void)cudaGetLastError();
  *why_none = WhyNoCuda(error, driver_version);
  return 0;
}

}  // namespace

Found FindCudaDevices() {
  Found found;
  const int count = CountCards(&found.why_none);
  std::string refused;
  for (int index = 0; index < count; ++index) {
    Result<DeviceInfo> info = InfoOfCard(index);
    if (info) {
      found.devices.push_back(*std::move(info));
    } else {
      refused += (refused.empty() ? "" : "; ") + info.error().message;
    }
  }
  if (found.devices.empty() && !refused.empty()) found.why_none = refused;
  return found;
}

Result<std::unique_ptr<Device>> OpenCuda(int index, Timeline* timeline) {
  std::string why_none;
  const int count = CountCards(&why_none);
  if (count == 0)
    return Fail(ErrorCode::kNotFound, "cuda{}: {}", index, why_none);
  if (index < 0 || index >= count) {
    return Fail(ErrorCode::kNotFound, "cuda{}: no such GPU: there {} {}", index,
                count == 1 ? "is" : "are", count);
  }
  TC_ASSIGN_OR_RETURN(DeviceInfo info, InfoOfCard(index));
  const std::string id = info.id;
  auto device =
      std::make_unique<CudaDevice>(index, id, std::move(info), timeline);
  TC_RETURN_IF_ERROR(device->Start());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace thermocline::device
