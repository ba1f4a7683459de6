#include "engine/ffn/device_ffn.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/math.h"
#include "compute/carver.h"

namespace thermocline::engine {
namespace {

using kernels::DeviceSetWords;
using kernels::kDeviceRows;
static_assert(std::endian::native == std::endian::little);  // sets' words

// Of host memory in which records are packed before they are copied.
constexpr uint64_t kStagingBytes = 4 << 20;

Status CheckRows(std::string_view name, const TensorView& view,
                 const device::RowLayout& layout) {
  if (layout.CanCompute(view.dtype)) return {};
  return Fail(ErrorCode::kUnsupported, "{} in {} has no kernel on the device",
              name, NameOf(view.dtype));
}

const float* FloatsOf(const TensorView& view) {
  return view ? reinterpret_cast<const float*>(view.data) : nullptr;
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

DeviceFfn::Staged DeviceFfn::Carve(std::byte* base, const model::FfnSpec& spec,
                                   uint64_t width, size_t num_slots,
                                   Lengths& lengths) {
  compute::Carver carver(base);
  const size_t words = DeviceSetWords(static_cast<size_t>(spec.width));
  Staged staged;
  staged.x = carver.Take<float>(kDeviceRows, width);
  staged.sets = carver.Take<uint32_t>(kDeviceRows, words);
  lengths.in = carver.used();
  staged.out = carver.Take<float>(kDeviceRows, width);
  staged.fired = carver.Take<uint32_t>(kDeviceRows, words);
  staged.num_listed = carver.Take<uint32_t>(1, 1);
  lengths.out_end = carver.used();
  staged.scratch = carver.TakeBytes(
      kernels::SparseFfnScratchBytes(width, num_slots, kDeviceRows), 1);
  lengths.all = carver.used();
  return staged;
}

LaneNeed DeviceFfnNeed(const model::FfnSpec& spec, uint64_t width) {
  DeviceFfn::Lengths lengths;
  DeviceFfn::Carve(nullptr, spec, width, static_cast<size_t>(spec.width),
                   lengths);
  return {.device_bytes = lengths.all,
          .pinned_bytes = std::max(lengths.out_end, kStagingBytes)};
}

DeviceFfn::DeviceFfn(const DeviceFfnParts& parts, const DeviceRecords& records)
    : lane_(*parts.lane),
      records_(records),
      resident_words_(neuron::WordsOf(static_cast<size_t>(parts.spec->width))),
      resident_{resident_words_.data(), static_cast<size_t>(parts.spec->width)},
      gate_bytes_(records.up_offset != 0 ? records.up_offset
                                         : records.down_offset),
      num_wanted_(kDeviceRows) {
  for (const uint32_t neuron : parts.resident) resident_.Add(neuron);
  const model::FfnWeights& weights = *parts.weights;
  const auto width = static_cast<size_t>(weights.up.shape.ne[0]);
  Lengths lengths;
  host_ = Carve(lane_.pinned_memory(), *parts.spec, width,
                parts.resident.size(), lengths);
  device_ = Carve(lane_.device_memory(), *parts.spec, width,
                  parts.resident.size(), lengths_);
  args_ = {.activation = parts.spec->activation,
           .threshold = parts.spec->threshold,
           .rest_below = parts.rest_below,
           .n = static_cast<uint32_t>(width),
           .num_neurons = static_cast<uint32_t>(parts.spec->width),
           .num_slots = static_cast<uint32_t>(parts.resident.size()),
           .x = device_.x,
           .sets = device_.sets,
           .record_bytes = records.record_bytes,
           .gated = parts.spec->gated,
           .gate_dtype = weights.gate.dtype,
           .up_dtype = weights.up.dtype,
           .down_dtype = weights.down_t.dtype,
           .up_offset = records.up_offset,
           .down_offset = records.down_offset,
           .out = device_.out,
           .fired = device_.fired,
           .num_listed = device_.num_listed,
           .scratch = device_.scratch};
}

Result<std::unique_ptr<DeviceFfn>> DeviceFfn::Make(
    const DeviceFfnParts& parts) {
  device::Device& device = parts.lane->device();
  TC_ASSIGN_OR_RETURN(
      const DeviceRecords records,
      PlanDeviceRecords(*parts.spec, *parts.weights, device.layout()));
  std::unique_ptr<DeviceFfn> ffn(new DeviceFfn(parts, records));
  TC_ASSIGN_OR_RETURN(
      ffn->memory_,
      device.Allocate(records.BytesFor(parts.resident.size()),
                      device::MemoryKind::kDevice, "the records of a layer"));
  TC_RETURN_IF_ERROR(ffn->Upload(parts));
  return ffn;
}

Status DeviceFfn::Upload(const DeviceFfnParts& parts) {
  args_.records = memory_.data();
  TC_RETURN_IF_ERROR(UploadRecords(parts));
  return UploadVectors(parts);
}

// Packed in the lane's pinned memory, as many at a time as fit.
Status DeviceFfn::UploadRecords(const DeviceFfnParts& parts) {
  device::Device& device = lane_.device();
  const device::RowLayout& layout = device.layout();
  const model::FfnWeights& weights = *parts.weights;
  const auto pack = [&](const TensorView& view, uint32_t neuron,
                        std::byte* out) {
    layout.Pack(view.dtype, view.row(neuron), view.shape.ne[0], out);
  };
  const size_t per_copy =
      std::max<size_t>(kStagingBytes / records_.record_bytes, 1);
  std::byte* staging = lane_.pinned_memory();
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
        lane_.stream(), memory_.data() + first * records_.record_bytes, staging,
        count * records_.record_bytes));
    TC_RETURN_IF_ERROR(device.Synchronize(lane_.stream()));
  }
  return {};
}

Status DeviceFfn::UploadVectors(const DeviceFfnParts& parts) {
  const auto count = static_cast<size_t>(parts.spec->width);
  std::vector<int32_t> slots(count, -1);
  for (size_t i = 0; i < parts.resident.size(); ++i) {
    slots[parts.resident[i]] = static_cast<int32_t>(i);
  }
  compute::Carver carver(memory_.data() +
                         parts.resident.size() * records_.record_bytes);
  const auto upload = [&](const void* from) -> Result<std::byte*> {
    std::byte* to = carver.TakeBytes(count, sizeof(float));
    TC_RETURN_IF_ERROR(
        lane_.device().Copy(lane_.stream(), to, from, count * sizeof(float)));
    return to;
  };
  TC_ASSIGN_OR_RETURN(std::byte* const slot_of, upload(slots.data()));
  args_.slot_of = reinterpret_cast<const int32_t*>(slot_of);
  if (const float* bias = FloatsOf(parts.weights->gate_bias)) {
    TC_ASSIGN_OR_RETURN(std::byte* const to, upload(bias));
    args_.gate_bias = reinterpret_cast<const float*>(to);
  }
  if (const float* bias = FloatsOf(parts.weights->up_bias)) {
    TC_ASSIGN_OR_RETURN(std::byte* const to, upload(bias));
    args_.up_bias = reinterpret_cast<const float*>(to);
  }
  return lane_.device().Synchronize(lane_.stream());
}

void DeviceFfn::SetRow(size_t t, const float* x,
                       const neuron::NeuronSet* wanted) {
  std::copy_n(x, args_.n, host_.x + t * args_.n);
  const size_t words = DeviceSetWords(args_.num_neurons);
  const uint64_t* from = wanted ? wanted->words : resident_.words;
  std::memcpy(host_.sets + t * words, from, words * sizeof(uint32_t));
  size_t count = 0;
  for (size_t i = 0; i < resident_words_.size(); ++i) {
    count += static_cast<size_t>(std::popcount(from[i] & resident_words_[i]));
  }
  num_wanted_[t] = count;
}

Status DeviceFfn::Begin(size_t num_rows) {
  TC_CHECK(num_rows <= kDeviceRows);
  device::Device& device = lane_.device();
  args_.num_tokens = static_cast<uint32_t>(num_rows);
  is_idle_ = std::all_of(num_wanted_.begin(),
                         num_wanted_.begin() + static_cast<ptrdiff_t>(num_rows),
                         [](size_t count) { return count == 0; });
  if (is_idle_) {
    std::fill_n(host_.fired, num_rows * DeviceSetWords(args_.num_neurons), 0u);
    return {};
  }
  TC_RETURN_IF_ERROR(
      device.Copy(lane_.stream(), device_.x, host_.x, lengths_.in));
  TC_RETURN_IF_ERROR(device.Run(lane_.stream(), args_));
  TC_RETURN_IF_ERROR(device.Copy(lane_.stream(), host_.out, device_.out,
                                 lengths_.out_end - lengths_.in));
  return device.Record(lane_.stream(), lane_.done());
}

Status DeviceFfn::Finish(const compute::Rows& out) {
  if (is_idle_) return {};
  TC_RETURN_IF_ERROR(lane_.device().Synchronize(lane_.done()));
  for (size_t t = 0; t < args_.num_tokens; ++t) {
    const float* sums = host_.out + t * args_.n;
    float* row = out.row(t);
    for (size_t i = 0; i < args_.n; ++i) row[i] += sums[i];
  }
  return {};
}

void DeviceFfn::AddWanted(size_t t, const neuron::NeuronSet& set) const {
  const uint32_t* words = host_.sets + t * DeviceSetWords(args_.num_neurons);
  for (size_t i = 0; i < DeviceSetWords(args_.num_neurons); ++i) {
    set.words[i / 2] |=
        (uint64_t{words[i]} << i % 2 * 32) & resident_words_[i / 2];
  }
}

void DeviceFfn::AddFired(size_t t, const neuron::NeuronSet& set) const {
  const uint32_t* words = host_.fired + t * DeviceSetWords(args_.num_neurons);
  for (size_t i = 0; i < DeviceSetWords(args_.num_neurons); ++i) {
    set.words[i / 2] |= uint64_t{words[i]} << i % 2 * 32;
  }
}

size_t DeviceFfn::num_fired(size_t t) const {
  const uint32_t* words = host_.fired + t * DeviceSetWords(args_.num_neurons);
  size_t count = 0;
  for (size_t i = 0; i < DeviceSetWords(args_.num_neurons); ++i) {
    count += static_cast<size_t>(std::popcount(words[i]));
  }
  return count;
}

uint64_t DeviceFfn::BytesRead(size_t num_listed, size_t num_open) const {
  return num_listed * gate_bytes_ +
         num_open * (records_.record_bytes - gate_bytes_);
}

}  // namespace thermocline::engine
