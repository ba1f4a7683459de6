#include "engine/forward/device_head.h"

#include <algorithm>
#include <utility>

#include "compute/carver.h"
#include "engine/device/weight_loader.h"
#include "kernels/device_ops.h"

namespace thermocline::engine {
namespace {

using kernels::kDeviceRows;

Result<kernels::DeviceMatrix> LoadHead(const TensorView& head,
                                       WeightLoader& loader) {
  return loader.Matrix("the head", head);
}

// The same arrays in the lane's pinned and device memory.
struct HeadArrays {
  float* x = nullptr;            // [T, D]
  float* logits = nullptr;       // [T, V]
  std::byte* scratch = nullptr;  // the device's alone

  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t num_bytes = 0;  // of all
};

HeadArrays CarveHead(std::byte* base, size_t width, size_t vocab_size,
                     size_t num_rows) {
  compute::Carver carver(base);
  HeadArrays arrays;
  arrays.x = carver.Take<float>(num_rows, width);
  arrays.bytes_in = carver.used();
  arrays.logits = carver.Take<float>(num_rows, vocab_size);
  arrays.bytes_out = carver.used() - arrays.bytes_in;
  arrays.scratch =
      carver.TakeBytes(kernels::QuantizedRowsBytes(width, num_rows), 1);
  arrays.num_bytes = carver.used();
  return arrays;
}

class DeviceHead final : public HeadExecutor {
 public:
  DeviceHead(DeviceLane* lane, device::Buffer memory,
             const kernels::DeviceMatrix& weights)
      : lane_(*lane), memory_(std::move(memory)), weights_(weights) {}

  Status Run(const HeadCall& call) override {
    for (size_t first = 0; first < call.num_rows; first += kDeviceRows) {
      const Status status =
          RunRows(call.normed.From(first), call.logits.From(first),
                  std::min(kDeviceRows, call.num_rows - first));
      if (!status) return Annotate("the head on the device", status.error());
    }
    return {};
  }
  size_t num_bytes() const override { return 0; }

 private:
  Status RunRows(const compute::Rows& normed, const compute::Rows& logits,
                 size_t count) {
    const auto carve = [&](std::byte* base) {
      return CarveHead(base, weights_.n, weights_.num_rows, count);
    };
    const HeadArrays host = carve(lane_.pinned_memory());
    const HeadArrays there = carve(lane_.device_memory());
    for (size_t t = 0; t < count; ++t) {
      std::copy_n(normed.row(t), weights_.n, host.x + t * weights_.n);
    }
    device::Device& device = lane_.device();
    const device::Stream stream = lane_.stream();
    TC_RETURN_IF_ERROR(device.Copy(stream, there.x, host.x, host.bytes_in));
    TC_RETURN_IF_ERROR(device.Run(
        stream, kernels::GemvArgs{.weights = weights_,
                                  .num_tokens = static_cast<uint32_t>(count),
                                  .x = there.x,
                                  .out = there.logits,
                                  .scratch = there.scratch}));
    TC_RETURN_IF_ERROR(
        device.Copy(stream, host.logits, there.logits, host.bytes_out));
    TC_RETURN_IF_ERROR(device.Record(stream, lane_.done()));
    TC_RETURN_IF_ERROR(device.Synchronize(lane_.done()));
    for (size_t t = 0; t < count; ++t) {
      std::copy_n(host.logits + t * weights_.num_rows, weights_.num_rows,
                  logits.row(t));
    }
    return {};
  }

  DeviceLane& lane_;
  device::Buffer memory_;
  kernels::DeviceMatrix weights_;
};

}  // namespace

Result<uint64_t> DeviceHeadBytes(const TensorView& head,
                                 const device::RowLayout& layout) {
  WeightLoader counter(layout);
  TC_RETURN_IF_ERROR(LoadHead(head, counter));
  return counter.used();
}

LaneNeed DeviceHeadNeed(const model::Config& config) {
  const HeadArrays most =
      CarveHead(nullptr, config.width, config.vocab_size, kDeviceRows);
  return {.device_bytes = most.num_bytes,
          .pinned_bytes = std::max(most.bytes_in + most.bytes_out,
                                   WeightLoader::kStagingBytes)};
}

Result<std::unique_ptr<HeadExecutor>> MakeDeviceHead(
    const TensorView& head, DeviceLane* lane, device::MemoryKind memory) {
  device::Device& device = lane->device();
  TC_ASSIGN_OR_RETURN(const uint64_t num_bytes,
                      DeviceHeadBytes(head, device.layout()));
  TC_ASSIGN_OR_RETURN(device::Buffer buffer,
                      device.Allocate(num_bytes, memory, "the head"));
  WeightLoader loader(lane, buffer.data());
  TC_ASSIGN_OR_RETURN(const kernels::DeviceMatrix weights,
                      LoadHead(head, loader));
  return std::make_unique<DeviceHead>(lane, std::move(buffer), weights);
}

}  // namespace thermocline::engine
