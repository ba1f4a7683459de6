#include "engine/ffn/device_matrices.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "compute/carver.h"
#include "compute/stage_times.h"
#include "engine/ffn/ffn_observer.h"

namespace thermocline::engine {
namespace {

using kernels::kDeviceRows;

// The same arrays in a lane's pinned and device memory.
struct StagedRows {
  float* x = nullptr;            // [T, D]
  float* out = nullptr;          // [T, D]
  float* raw = nullptr;          // [T, F]
  float* hidden = nullptr;       // [T, F]
  std::byte* scratch = nullptr;  // the device's alone
  uint64_t shared_bytes = 0;     // of those before it
  uint64_t num_bytes = 0;
};

StagedRows CarveStaged(std::byte* base, const model::FfnSpec& spec,
                       uint64_t width) {
  compute::Carver carver(base);
  StagedRows rows;
  rows.x = carver.Take<float>(kDeviceRows, width);
  rows.out = carver.Take<float>(kDeviceRows, width);
  rows.raw = carver.Take<float>(kDeviceRows, spec.width);
  rows.hidden = carver.Take<float>(kDeviceRows, spec.width);
  rows.shared_bytes = carver.used();
  rows.scratch = carver.TakeBytes(DeviceMatrices::ScratchBytes(spec, width), 1);
  rows.num_bytes = carver.used();
  return rows;
}

class DeviceMatricesFfn final : public FfnExecutor {
 public:
  DeviceMatricesFfn(size_t layer_idx, const model::FfnSpec* spec,
                    const DeviceMatrices* matrices,
                    const compute::Compute* compute, const FfnScratch* scratch)
      : layer_idx_(layer_idx),
        matrices_(*matrices),
        compute_(*compute),
        lane_(matrices->lane()),
        scratch_(*scratch),
        host_(CarveStaged(lane_.pinned_memory(), *spec, matrices->width())),
        device_(CarveStaged(lane_.device_memory(), *spec, matrices->width())) {}

  Status Run(const FfnCall& call) override {
    for (size_t first = 0; first < call.num_rows; first += kDeviceRows) {
      const size_t count = std::min(kDeviceRows, call.num_rows - first);
      TC_RETURN_IF_ERROR(
          OfDevice(RunRows(call, first, count), layer_idx_, "FFN"));
    }
    return {};
  }

  compute::Rows gate() const override { return scratch_.gate; }

 private:
  Status RunRows(const FfnCall& call, size_t first, size_t count) const {
    const size_t width = matrices_.width();
    for (size_t t = 0; t < count; ++t) {
      std::ranges::copy(call.normed.span(first + t), host_.x + t * width);
    }
    TC_RETURN_IF_ERROR(Compute(count, call.sets.is_recorded));
    for (size_t t = 0; t < count; ++t) {
      std::copy_n(host_.out + t * width, width, call.out.row(first + t));
      if (call.sets.is_recorded) Record(call, first, t);
    }
    return {};
  }

  Status Compute(size_t count, bool is_recorded) const {
    const compute::ScopedStage stage(compute_, compute::Stage::kDevice);
    device::Device& device = lane_.device();
    const auto copy = [&](float* to, const float* from, size_t width) {
      return device.Copy(lane_.stream(), to, from,
                         count * width * sizeof(float));
    };
    TC_RETURN_IF_ERROR(copy(device_.x, host_.x, matrices_.width()));
    TC_RETURN_IF_ERROR(matrices_.Enqueue({.num_tokens = count,
                                          .x = device_.x,
                                          .raw = device_.raw,
                                          .hidden = device_.hidden,
                                          .out = device_.out,
                                          .scratch = device_.scratch}));
    TC_RETURN_IF_ERROR(copy(host_.out, device_.out, matrices_.width()));
    if (is_recorded) {
      const size_t num_neurons = matrices_.num_neurons();
      TC_RETURN_IF_ERROR(copy(host_.raw, device_.raw, num_neurons));
      TC_RETURN_IF_ERROR(copy(host_.hidden, device_.hidden, num_neurons));
    }
    return device.Synchronize(lane_.stream());
  }

  // Of row t of the rows from `first` on.
  void Record(const FfnCall& call, size_t first, size_t t) const {
    const size_t num_neurons = matrices_.num_neurons();
    std::copy_n(host_.raw + t * num_neurons, num_neurons,
                scratch_.gate.row(first + t));
    call.sets.named(first + t).Fill();
    call.sets.fired(first + t).Clear();
    AddFired(call.sets.fired(first + t),
             {host_.hidden + t * num_neurons, num_neurons});
  }

  size_t layer_idx_;
  const DeviceMatrices& matrices_;
  const compute::Compute& compute_;
  DeviceLane& lane_;
  const FfnScratch& scratch_;
  StagedRows host_, device_;
};

}  // namespace

Result<DeviceMatrices::Weights> DeviceMatrices::Load(
    const model::FfnSpec& spec, const model::FfnWeights& weights,
    WeightLoader& loader) {
  if (!weights.down) {
    return Fail(ErrorCode::kUnsupported,
                "the down matrix is there only transposed: the device "
                "multiplies by rows");
  }
  Weights loaded;
  if (spec.gated) {
    TC_ASSIGN_OR_RETURN(loaded.gate, loader.Matrix("the gate", weights.gate));
    TC_ASSIGN_OR_RETURN(loaded.gate_bias, loader.Vector(weights.gate_bias));
  }
  TC_ASSIGN_OR_RETURN(loaded.up, loader.Matrix("the up matrix", weights.up));
  TC_ASSIGN_OR_RETURN(loaded.up_bias, loader.Vector(weights.up_bias));
  TC_ASSIGN_OR_RETURN(loaded.down,
                      loader.Matrix("the down matrix", weights.down));
  TC_ASSIGN_OR_RETURN(loaded.down_bias, loader.Vector(weights.down_bias));
  return loaded;
}

Result<uint64_t> DeviceMatrices::NumBytes(const model::FfnSpec& spec,
                                          const model::FfnWeights& weights,
                                          const device::RowLayout& layout) {
  WeightLoader counter(layout);
  const auto counted = Load(spec, weights, counter);
  if (!counted) return tl::unexpected(counted.error());
  return counter.used();
}

Result<uint64_t> DeviceMatricesBytes(const model::FfnSpec& spec,
                                     const model::FfnWeights& weights,
                                     const device::RowLayout& layout) {
  if (spec.num_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "the layer is a mixture, of which experts go there");
  }
  return DeviceMatrices::NumBytes(spec, weights, layout);
}

LaneNeed DeviceMatricesNeed(const model::FfnSpec& spec, uint64_t width) {
  const StagedRows rows = CarveStaged(nullptr, spec, width);
  return {
      .device_bytes = rows.num_bytes,
      .pinned_bytes = std::max(rows.shared_bytes, WeightLoader::kStagingBytes)};
}

Result<std::unique_ptr<DeviceMatrices>> DeviceMatrices::Make(
    const model::FfnSpec& spec, const model::FfnWeights& weights,
    DeviceLane* lane, device::MemoryKind memory) {
  device::Device& device = lane->device();
  TC_ASSIGN_OR_RETURN(const uint64_t num_bytes,
                      NumBytes(spec, weights, device.layout()));
  std::unique_ptr<DeviceMatrices> matrices(new DeviceMatrices(spec, lane));
  TC_ASSIGN_OR_RETURN(
      matrices->memory_,
      device.Allocate(num_bytes, memory, "the matrices of an FFN"));
  WeightLoader loader(lane, matrices->memory_.data());
  TC_ASSIGN_OR_RETURN(matrices->weights_, Load(spec, weights, loader));
  TC_CHECK(loader.used() == num_bytes);
  return matrices;
}

size_t DeviceMatrices::ScratchBytes(const model::FfnSpec& spec,
                                    uint64_t width) {
  return kernels::QuantizedRowsBytes(std::max<size_t>(width, spec.width),
                                     kDeviceRows);
}

Status DeviceMatrices::Enqueue(const Pass& pass) const {
  TC_CHECK(pass.num_tokens <= kDeviceRows);
  const auto num_tokens = static_cast<uint32_t>(pass.num_tokens);
  const auto multiply = [&](const kernels::DeviceMatrix& matrix,
                            const float* bias, const float* x, float* out) {
    return lane_.device().Run(lane_.stream(),
                              kernels::GemvArgs{.weights = matrix,
                                                .bias = bias,
                                                .num_tokens = num_tokens,
                                                .x = x,
                                                .out = out,
                                                .scratch = pass.scratch});
  };
  const bool gated = static_cast<bool>(weights_.gate);
  if (gated) {
    TC_RETURN_IF_ERROR(
        multiply(weights_.gate, weights_.gate_bias, pass.x, pass.raw));
  }
  TC_RETURN_IF_ERROR(multiply(weights_.up, weights_.up_bias, pass.x,
                              gated ? pass.hidden : pass.raw));
  TC_RETURN_IF_ERROR(lane_.device().Run(
      lane_.stream(),
      kernels::ActivateArgs{.activation = activation_,
                            .threshold = threshold_,
                            .count = num_tokens * weights_.up.num_rows,
                            .gate = gated ? pass.raw : nullptr,
                            .up = gated ? pass.hidden : pass.raw,
                            .out = pass.hidden}));
  return multiply(weights_.down, weights_.down_bias, pass.hidden, pass.out);
}

std::unique_ptr<FfnExecutor> MakeDeviceMatricesFfn(
    size_t layer_idx, const model::FfnSpec* spec,
    const DeviceMatrices* matrices, const compute::Compute* compute,
    const FfnScratch* scratch) {
  return std::make_unique<DeviceMatricesFfn>(layer_idx, spec, matrices, compute,
                                             scratch);
}

}  // namespace thermocline::engine
