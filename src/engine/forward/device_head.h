// The head, on a device.
#ifndef THERMOCLINE_ENGINE_FORWARD_DEVICE_HEAD_H_
#define THERMOCLINE_ENGINE_FORWARD_DEVICE_HEAD_H_

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "engine/device/device_lane.h"
#include "engine/forward/head_executor.h"
#include "model/config.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

// Bytes of its weights there. kUnsupported: its type, which the device cannot
// compute, named.
Result<uint64_t> DeviceHeadBytes(const TensorView& head,
                                 const device::RowLayout& layout);
LaneNeed DeviceHeadNeed(const model::Config& config);

// Of generated rows, kernels::kDeviceRows at a time: D floats a row go over, V
// come back. The lane outlives it; the weights need not. kResourceExhausted,
// errors of the device, and those of DeviceHeadBytes. memory: of the weights.
Result<std::unique_ptr<HeadExecutor>> MakeDeviceHead(
    const TensorView& head, DeviceLane* lane,
    device::MemoryKind memory = device::MemoryKind::kDevice);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_DEVICE_HEAD_H_
