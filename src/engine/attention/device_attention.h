// The attention half of a layer, on a device.
#ifndef THERMOCLINE_ENGINE_ATTENTION_DEVICE_ATTENTION_H_
#define THERMOCLINE_ENGINE_ATTENTION_DEVICE_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "compute/matmul.h"
#include "device/device.h"
#include "engine/attention/attention_executor.h"
#include "engine/device/device_lane.h"
#include "engine/kv/device_kv.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// Of a layer's weights. kUnsupported: a type, or a width of heads, that the
// device cannot compute, named.
Result<uint64_t> DeviceAttentionBytes(const model::Config& config,
                                      size_t layer_idx,
                                      const model::AttentionWeights& weights,
                                      const device::RowLayout& layout);
LaneNeed DeviceAttentionNeed(const model::Config& config, size_t layer_idx,
                             int64_t context);

struct DeviceAttentionParts {
  const model::Config* config = nullptr;
  const model::AttentionWeights* weights = nullptr;
  size_t layer_idx = 0;
  DeviceLane* lane = nullptr;
  DeviceKv* kv = nullptr;  // that has the layer
  const compute::Compute* compute = nullptr;
  device::MemoryKind memory = device::MemoryKind::kDevice;  // of the weights
};

// Of generated rows, kernels::kDeviceRows at a time: D floats a row go over, D
// come back, and the rows' keys and values for the host's pages (KvSequence::
// Put). Requires that DeviceKv::Sync was called for the pass. All of `parts`
// outlives it, but for the weights. kResourceExhausted, errors of the device,
// and those of DeviceAttentionBytes.
Result<std::unique_ptr<AttentionExecutor>> MakeDeviceAttention(
    const DeviceAttentionParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_DEVICE_ATTENTION_H_
