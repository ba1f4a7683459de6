// A trained predictor, on a device.
#ifndef THERMOCLINE_ENGINE_FFN_DEVICE_SELECTOR_H_
#define THERMOCLINE_ENGINE_FFN_DEVICE_SELECTOR_H_

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "engine/device/device_lane.h"
#include "engine/ffn/device_ffn.h"
#include "model/model.h"
#include "predictor/selector.h"

namespace thermocline::engine {

// kUnsupported: a type, named.
Result<uint64_t> DeviceSelectorBytes(const model::PredictorWeights& weights,
                                     const device::RowLayout& layout);
LaneNeed DeviceSelectorNeed(const model::PredictorWeights& weights);

// predictor::MakeLowRankSelector's choice for generated rows: D floats a row go
// over, a set comes back. A score that is not finite makes its neuron a
// candidate, and is not told of: what it stands for shows in the FFN's output.
// The lane outlives it; the weights need not. kResourceExhausted, errors of the
// device, and those of DeviceSelectorBytes.
// ffn: the same layer's neurons, which read what the predictor reads: they
// begin as soon as they are chosen, before the host knows. Or null.
// memory: of the weights.
Result<std::unique_ptr<predictor::Selector>> MakeDeviceSelector(
    const model::PredictorWeights& weights, float threshold, DeviceLane* lane,
    DeviceFfn* ffn = nullptr,
    device::MemoryKind memory = device::MemoryKind::kDevice);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DEVICE_SELECTOR_H_
