// Weights on their way to a device.
#ifndef THERMOCLINE_ENGINE_DEVICE_WEIGHT_LOADER_H_
#define THERMOCLINE_ENGINE_DEVICE_WEIGHT_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "device/device.h"
#include "engine/device/device_lane.h"
#include "kernels/device_ops.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

// Hands out consecutive places in a device's memory and copies weights there,
// through a lane's pinned memory. Planning (no lane) and loading run the same
// calls, so a plan is exact by construction. A view without data, of a shape
// alone, gets its place and the copies' time, and nothing is read.
class WeightLoader {
 public:
  // Host memory in which rows are packed before they are copied: a lane that
  // loads has as much pinned memory.
  static constexpr uint64_t kStagingBytes = 4 << 20;

  // Counts.
  explicit WeightLoader(const device::RowLayout& layout) : layout_(layout) {}
  // Copies to `to` and on, which holds what a plan has counted.
  WeightLoader(DeviceLane* lane, std::byte* to)
      : layout_(lane->device().layout()), lane_(lane), to_(to) {}

  // A matrix as operations take it; rows null when planning. kUnsupported:
  // `name` ("the gate") is of a type that the device cannot compute, or a row
  // of it does not fit the staging memory. Errors of the device.
  Result<kernels::DeviceMatrix> Matrix(std::string_view name,
                                       const TensorView& view);
  // Floats; null for an empty view, and when planning.
  Result<const float*> Vector(const TensorView& view);

  uint64_t used() const { return used_; }  // bytes

 private:
  std::byte* Take(uint64_t num_bytes);
  Status Upload(std::byte* to, size_t num_bytes);

  const device::RowLayout& layout_;
  DeviceLane* lane_ = nullptr;
  std::byte* to_ = nullptr;
  uint64_t used_ = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_WEIGHT_LOADER_H_
