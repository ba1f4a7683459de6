// An FFN as matrices, on a device as a whole.
#ifndef THERMOCLINE_ENGINE_FFN_DEVICE_MATRICES_H_
#define THERMOCLINE_ENGINE_FFN_DEVICE_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "engine/device/device_lane.h"
#include "engine/device/weight_loader.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "kernels/device_ops.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// Of gate, up and down as matrices, and their biases, in one piece; without
// experts. kUnsupported: a type, named; no down matrix but a transposed one
// (such a layer goes there as neurons).
Result<uint64_t> DeviceMatricesBytes(const model::FfnSpec& spec,
                                     const model::FfnWeights& weights,
                                     const device::RowLayout& layout);
LaneNeed DeviceMatricesNeed(const model::FfnSpec& spec, uint64_t width);

// What of one FFN, or of one expert, lies on a device.
class DeviceMatrices {
 public:
  // On the device, of a layer's or an expert's. kUnsupported as above.
  static Result<uint64_t> NumBytes(const model::FfnSpec& spec,
                                   const model::FfnWeights& weights,
                                   const device::RowLayout& layout);
  // Copies the matrices over. The lane outlives it, the weights need not.
  // kResourceExhausted, errors of the device.
  static Result<std::unique_ptr<DeviceMatrices>> Make(
      const model::FfnSpec& spec, const model::FfnWeights& weights,
      DeviceLane* lane,
      device::MemoryKind memory = device::MemoryKind::kDevice);

  // Memory of the device.
  struct Pass {
    size_t num_tokens = 0;         // T <= kernels::kDeviceRows
    const float* x = nullptr;      // [T, D]
    float* raw = nullptr;          // [T, F] what the activation is applied to
    float* hidden = nullptr;       // [T, F]
    float* out = nullptr;          // [T, D]
    std::byte* scratch = nullptr;  // ScratchBytes()
  };
  static size_t ScratchBytes(const model::FfnSpec& spec, uint64_t width);
  // DenseFfn's function, into the lane's stream.
  Status Enqueue(const Pass& pass) const;

  // What a pass reads of them.
  uint64_t num_bytes() const { return memory_.size(); }
  size_t width() const { return weights_.up.n; }               // D
  size_t num_neurons() const { return weights_.up.num_rows; }  // F
  DeviceLane& lane() const { return lane_; }

 private:
  struct Weights {
    kernels::DeviceMatrix gate, up, down;
    const float* gate_bias = nullptr;
    const float* up_bias = nullptr;
    const float* down_bias = nullptr;
  };
  static Result<Weights> Load(const model::FfnSpec& spec,
                              const model::FfnWeights& weights,
                              WeightLoader& loader);
  DeviceMatrices(const model::FfnSpec& spec, DeviceLane* lane)
      : activation_(spec.activation),
        threshold_(spec.threshold),
        lane_(*lane) {}

  Activation activation_;
  float threshold_;
  DeviceLane& lane_;
  device::Buffer memory_;
  Weights weights_;
};

// DenseFfn's for generated rows: D floats a row go over, D come back; what the
// activation is applied to and the hidden vector too where sets are recorded.
// The arguments outlive it. layer_idx: for errors.
std::unique_ptr<FfnExecutor> MakeDeviceMatricesFfn(
    size_t layer_idx, const model::FfnSpec* spec,
    const DeviceMatrices* matrices, const compute::Compute* compute,
    const FfnScratch* scratch);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DEVICE_MATRICES_H_
