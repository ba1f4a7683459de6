// NVIDIA's GPUs as devices. Three libraries define these functions, of which a
// program links one: tc_device_cuda, where nvcc was found; else
// tc_device_without_cuda, which finds nothing and says so; and for tests
// tc_device_cuda_on_host, the first one's sources on the device that
// cuda_on_host/ plays. The program's is named tc_device_cuda_or_none.
#ifndef THERMOCLINE_DEVICE_CUDA_FIND_CUDA_H_
#define THERMOCLINE_DEVICE_CUDA_FIND_CUDA_H_

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/timeline.h"
#include "device/device.h"

namespace thermocline::device {

// What there is, or why there is none: "no NVIDIA driver", "built without
// CUDA". Never fails for want of hardware.
struct Found {
  std::vector<DeviceInfo> devices;
  std::string why_none;
};

// The GPUs that can be opened, "cuda0" and on; or why there is none: no driver,
// one that is too old, cards that are, by name.
Found FindCudaDevices();

// By the number in its id. Errors: kNotFound, with why there is none;
// kUnsupported: too old a card or driver; kIo: CUDA failed, in its words.
// Cost: CUDA's context, which takes memory of the device and time to start.
// Draws what it does in `timeline`, which outlives it; null: nowhere.
Result<std::unique_ptr<Device>> OpenCuda(int index,
                                         Timeline* timeline = nullptr);

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_CUDA_FIND_CUDA_H_
