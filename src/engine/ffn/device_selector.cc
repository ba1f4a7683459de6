#include "engine/ffn/device_selector.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "compute/carver.h"
#include "engine/device/weight_loader.h"
#include "kernels/device_ops.h"

namespace thermocline::engine {
namespace {

using kernels::DeviceSetWords;
using kernels::kDeviceRows;
static_assert(std::endian::native == std::endian::little);  // sets' words

// Sets what of the arguments is weights.
Result<kernels::PredictArgs> LoadPredictor(
    const model::PredictorWeights& weights, WeightLoader& loader) {
  kernels::PredictArgs args;
  TC_ASSIGN_OR_RETURN(
      args.up, loader.Matrix("the predictor's first matrix", weights.up));
  TC_ASSIGN_OR_RETURN(
      args.down, loader.Matrix("the predictor's second matrix", weights.down));
  TC_ASSIGN_OR_RETURN(args.up_bias, loader.Vector(weights.up_bias));
  TC_ASSIGN_OR_RETURN(args.down_bias, loader.Vector(weights.down_bias));
  return args;
}

// The same arrays in the lane's pinned and device memory.
struct SelectorArrays {
  float* x = nullptr;            // [T, D]
  uint32_t* sets = nullptr;      // [T, words]
  float* hidden = nullptr;       // [T, R], the device's alone
  std::byte* scratch = nullptr;  // and this

  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t num_bytes = 0;  // of all
};

SelectorArrays CarveSelector(std::byte* base,
                             const model::PredictorWeights& weights,
                             size_t num_rows) {
  const size_t width = weights.up.shape.ne[0];
  const size_t rank = weights.up.shape.num_rows();
  compute::Carver carver(base);
  SelectorArrays arrays;
  arrays.x = carver.Take<float>(num_rows, width);
  arrays.bytes_in = carver.used();
  arrays.sets = carver.Take<uint32_t>(
      num_rows, DeviceSetWords(weights.down.shape.num_rows()));
  arrays.bytes_out = carver.used() - arrays.bytes_in;
  arrays.hidden = carver.Take<float>(num_rows, rank);
  arrays.scratch = carver.TakeBytes(
      kernels::QuantizedRowsBytes(std::max(width, rank), num_rows), 1);
  arrays.num_bytes = carver.used();
  return arrays;
}

class DeviceSelector final : public predictor::Selector {
 public:
  DeviceSelector(const model::PredictorWeights& weights, float threshold,
                 DeviceLane* lane, DeviceFfn* ffn, device::Buffer memory,
                 const kernels::PredictArgs& args)
      : weights_(weights),
        lane_(*lane),
        ffn_(ffn),
        memory_(std::move(memory)),
        args_(args) {
    args_.threshold = threshold;
  }

  Status Select(compute::ProductForm /*form*/, const compute::Rows& x,
                size_t num_rows, const neuron::ActiveSets& sets) override {
    for (size_t first = 0; first < num_rows; first += kDeviceRows) {
      const Status status = SelectRows(x.From(first), sets.From(first),
                                       std::min(kDeviceRows, num_rows - first),
                                       num_rows <= kDeviceRows);
      if (!status) {
        return Annotate("the predictor on the device", status.error());
      }
    }
    return {};
  }

  size_t num_bytes() const override { return 0; }

 private:
  Status SelectRows(const compute::Rows& x, const neuron::ActiveSets& sets,
                    size_t count, bool are_all) {
    const SelectorArrays host =
        CarveSelector(lane_.pinned_memory(), weights_, count);
    const SelectorArrays there =
        CarveSelector(lane_.device_memory(), weights_, count);
    for (size_t t = 0; t < count; ++t) {
      std::copy_n(x.row(t), args_.up.n, host.x + t * args_.up.n);
    }
    args_.num_tokens = static_cast<uint32_t>(count);
    args_.x = there.x;
    args_.hidden = there.hidden;
    args_.scratch = there.scratch;
    args_.sets = there.sets;
    device::Device& device = lane_.device();
    const device::Stream stream = lane_.stream();
    TC_RETURN_IF_ERROR(device.Copy(stream, there.x, host.x, host.bytes_in));
    TC_RETURN_IF_ERROR(device.Run(stream, args_));
    TC_RETURN_IF_ERROR(
        device.Copy(stream, host.sets, there.sets, host.bytes_out));
    TC_RETURN_IF_ERROR(device.Record(stream, lane_.chosen()));
    if (ffn_ != nullptr && are_all) {
      TC_RETURN_IF_ERROR(ffn_->BeginChosen(count));
    }
    TC_RETURN_IF_ERROR(device.Synchronize(lane_.chosen()));
    const size_t num_words = DeviceSetWords(args_.down.num_rows);
    for (size_t t = 0; t < count; ++t) {
      const neuron::NeuronSet set = sets.named(t);
      set.Clear();  // the last word may be half filled
      std::memcpy(set.words, host.sets + t * num_words,
                  num_words * sizeof(uint32_t));
    }
    return {};
  }

  model::PredictorWeights weights_;
  DeviceLane& lane_;
  DeviceFfn* ffn_;
  device::Buffer memory_;
  kernels::PredictArgs args_;
};

}  // namespace

Result<uint64_t> DeviceSelectorBytes(const model::PredictorWeights& weights,
                                     const device::RowLayout& layout) {
  WeightLoader counter(layout);
  TC_RETURN_IF_ERROR(LoadPredictor(weights, counter));
  return counter.used();
}

LaneNeed DeviceSelectorNeed(const model::PredictorWeights& weights) {
  const SelectorArrays most = CarveSelector(nullptr, weights, kDeviceRows);
  return {.device_bytes = most.num_bytes,
          .pinned_bytes = std::max(most.bytes_in + most.bytes_out,
                                   WeightLoader::kStagingBytes)};
}

Result<std::unique_ptr<predictor::Selector>> MakeDeviceSelector(
    const model::PredictorWeights& weights, float threshold, DeviceLane* lane,
    DeviceFfn* ffn, device::MemoryKind memory) {
  device::Device& device = lane->device();
  TC_ASSIGN_OR_RETURN(const uint64_t num_bytes,
                      DeviceSelectorBytes(weights, device.layout()));
  TC_ASSIGN_OR_RETURN(
      device::Buffer buffer,
      device.Allocate(num_bytes, memory, "the weights of a predictor"));
  WeightLoader loader(lane, buffer.data());
  TC_ASSIGN_OR_RETURN(const kernels::PredictArgs args,
                      LoadPredictor(weights, loader));
  return std::make_unique<DeviceSelector>(weights, threshold, lane, ffn,
                                          std::move(buffer), args);
}

}  // namespace thermocline::engine
