#include "engine/device/device_lane.h"

namespace thermocline::engine {

Result<std::unique_ptr<DeviceLane>> DeviceLane::Make(device::Device* device,
                                                     const LaneNeed& need) {
  using device::MemoryKind;
  TC_ASSIGN_OR_RETURN(
      device::Buffer on_device,
      device->Allocate(need.device_bytes, MemoryKind::kDevice, "activations"));
  TC_ASSIGN_OR_RETURN(device::Buffer pinned,
                      device->Allocate(need.pinned_bytes, MemoryKind::kPinned,
                                       "activations on their way"));
  TC_ASSIGN_OR_RETURN(const device::Stream stream,
                      device->MakeStream(device::Priority::kNormal));
  TC_ASSIGN_OR_RETURN(const device::Event done, device->MakeEvent());
  return std::unique_ptr<DeviceLane>(new DeviceLane(
      device, stream, done, std::move(on_device), std::move(pinned)));
}

}  // namespace thermocline::engine
