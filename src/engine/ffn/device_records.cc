#include "engine/ffn/device_records.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "compute/carver.h"
#include "engine/device/weight_loader.h"

namespace thermocline::engine {
namespace {

Status CheckRows(std::string_view name, const TensorView& view,
                 const device::RowLayout& layout) {
  if (layout.CanCompute(view.dtype)) return {};
  return Fail(ErrorCode::kUnsupported, "{} in {} has no kernel on the device",
              name, NameOf(view.dtype));
}

}  // namespace

Result<DeviceRecords> PlanDeviceRecords(const model::FfnSpec& spec,
                                        const model::FfnWeights& weights,
                                        const device::RowLayout& layout) {
  if (!weights.down_t) {
    return Fail(ErrorCode::kUnsupported,
                "the down matrix is not transposed, so that no neuron can be "
                "taken out of it: the file is not prepared");
  }
  DeviceRecords records;
  if (spec.gated) {
    TC_RETURN_IF_ERROR(CheckRows("the gate", weights.gate, layout));
    records.up_offset =
        layout.RowBytes(weights.gate.dtype, weights.gate.shape.ne[0]);
  }
  TC_RETURN_IF_ERROR(CheckRows("the up matrix", weights.up, layout));
  TC_RETURN_IF_ERROR(CheckRows("the down matrix", weights.down_t, layout));
  records.down_offset =
      records.up_offset +
      layout.RowBytes(weights.up.dtype, weights.up.shape.ne[0]);
  records.record_bytes =
      records.down_offset +
      layout.RowBytes(weights.down_t.dtype, weights.down_t.shape.ne[0]);
  compute::Carver others(nullptr);
  const auto count = static_cast<uint64_t>(spec.width);
  others.Take<int32_t>(1, count);
  if (weights.gate_bias) others.Take<float>(1, count);
  if (weights.up_bias) others.Take<float>(1, count);
  records.other_bytes = others.used();
  return records;
}

ResidentRecords::ResidentRecords(const ResidentParts& parts,
                                 const DeviceRecords& records)
    : records_(records),
      resident_words_(neuron::WordsOf(parts.spec->width)),
      resident_{resident_words_.data(), parts.spec->width},
      gate_bytes_(records.up_offset != 0 ? records.up_offset
                                         : records.down_offset) {
  for (const uint32_t neuron : parts.resident) resident_.Add(neuron);
  const model::FfnWeights& weights = *parts.weights;
  args_ = {.activation = parts.spec->activation,
           .threshold = parts.spec->threshold,
           .rest_below = parts.rest_below,
           .n = static_cast<uint32_t>(weights.up.shape.ne[0]),
           .num_neurons = static_cast<uint32_t>(parts.spec->width),
           .num_slots = static_cast<uint32_t>(parts.resident.size()),
           .record_bytes = records.record_bytes,
           .gated = parts.spec->gated,
           .gate_dtype = weights.gate.dtype,
           .up_dtype = weights.up.dtype,
           .down_dtype = weights.down_t.dtype,
           .up_offset = records.up_offset,
           .down_offset = records.down_offset};
}

Result<ResidentRecords> ResidentRecords::Make(const ResidentParts& parts) {
  device::Device& device = parts.lane->device();
  TC_ASSIGN_OR_RETURN(
      const DeviceRecords records,
      PlanDeviceRecords(*parts.spec, *parts.weights, device.layout()));
  ResidentRecords resident(parts, records);
  TC_ASSIGN_OR_RETURN(resident.memory_,
                      device.Allocate(records.BytesFor(parts.resident.size()),
                                      parts.memory, "the records of a layer"));
  resident.args_.records = resident.memory_.data();
  TC_RETURN_IF_ERROR(resident.Upload(parts));
  TC_RETURN_IF_ERROR(resident.UploadVectors(parts));
  return resident;
}

// Packed in the lane's pinned memory, as many at a time as fit.
Status ResidentRecords::Upload(const ResidentParts& parts) {
  device::Device& device = parts.lane->device();
  const device::RowLayout& layout = device.layout();
  const model::FfnWeights& weights = *parts.weights;
  const auto pack = [&](const TensorView& view, uint32_t neuron,
                        std::byte* out) {
    if (!view.in_memory()) return;  // of a shape alone
    layout.Pack(view.dtype, view.row(neuron), view.shape.ne[0], out);
  };
  const size_t per_copy =
      std::max<size_t>(WeightLoader::kStagingBytes / records_.record_bytes, 1);
  std::byte* staging = parts.lane->pinned_memory();
  for (size_t first = 0; first < parts.resident.size(); first += per_copy) {
    const size_t count = std::min(per_copy, parts.resident.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t neuron = parts.resident[first + i];
      std::byte* record = staging + i * records_.record_bytes;
      if (parts.spec->gated) pack(weights.gate, neuron, record);
      pack(weights.up, neuron, record + records_.up_offset);
      pack(weights.down_t, neuron, record + records_.down_offset);
    }
    TC_RETURN_IF_ERROR(device.Copy(
        parts.lane->stream(), memory_.data() + first * records_.record_bytes,
        staging, count * records_.record_bytes));
    TC_RETURN_IF_ERROR(device.Synchronize(parts.lane->stream()));
  }
  return {};
}

// From the lane's pinned memory, which lives until nothing reads it: an array
// of our own would end while a copy that an error left behind is on its way.
Status ResidentRecords::UploadSlots(const ResidentParts& parts, std::byte* to) {
  constexpr size_t kPerCopy = WeightLoader::kStagingBytes / sizeof(int32_t);
  device::Device& device = parts.lane->device();
  auto* const slots = reinterpret_cast<int32_t*>(parts.lane->pinned_memory());
  size_t num_placed = 0;
  for (size_t first = 0; first < parts.spec->width; first += kPerCopy) {
    const size_t count = std::min(kPerCopy, parts.spec->width - first);
    for (size_t i = 0; i < count; ++i) {
      const bool is_there = num_placed < parts.resident.size() &&
                            parts.resident[num_placed] == first + i;
      slots[i] = is_there ? static_cast<int32_t>(num_placed++) : -1;
    }
    TC_RETURN_IF_ERROR(device.Copy(parts.lane->stream(),
                                   to + first * sizeof(int32_t), slots,
                                   count * sizeof(int32_t)));
    TC_RETURN_IF_ERROR(device.Synchronize(parts.lane->stream()));
  }
  return {};
}

Status ResidentRecords::UploadVectors(const ResidentParts& parts) {
  const auto count = static_cast<size_t>(parts.spec->width);
  compute::Carver carver(memory_.data() +
                         parts.resident.size() * records_.record_bytes);
  const auto upload = [&](const TensorView& bias) -> Result<const float*> {
    if (!bias) return nullptr;
    return WeightLoader(parts.lane, carver.TakeBytes(count, sizeof(float)))
        .Vector(bias);
  };
  std::byte* const slot_of = carver.TakeBytes(count, sizeof(int32_t));
  TC_RETURN_IF_ERROR(UploadSlots(parts, slot_of));
  args_.slot_of = reinterpret_cast<const int32_t*>(slot_of);
  TC_ASSIGN_OR_RETURN(args_.gate_bias, upload(parts.weights->gate_bias));
  TC_ASSIGN_OR_RETURN(args_.up_bias, upload(parts.weights->up_bias));
  return {};
}

}  // namespace thermocline::engine
