#include "engine/ffn/device_ffn.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "compute/carver.h"
#include "engine/device/weight_loader.h"

namespace thermocline::engine {

using kernels::DeviceSetWords;
using kernels::kDeviceRows;
static_assert(std::endian::native == std::endian::little);  // sets' words

DeviceFfn::Staged DeviceFfn::Carve(std::byte* base, uint64_t width,
                                   size_t num_neurons, size_t num_slots,
                                   size_t num_rows) {
  compute::Carver carver(base);
  const size_t words = DeviceSetWords(num_neurons);
  Staged staged;
  staged.x = carver.Take<float>(num_rows, width);
  staged.sets = carver.Take<uint32_t>(num_rows, words);
  staged.bytes_in = carver.used();
  staged.out = carver.Take<float>(num_rows, width);
  staged.fired = carver.Take<uint32_t>(num_rows, words);
  staged.num_listed = carver.Take<uint32_t>(1, 1);
  staged.bytes_out = carver.used() - staged.bytes_in;
  staged.scratch = carver.TakeBytes(
      kernels::SparseFfnScratchBytes(width, num_slots, num_rows), 1);
  staged.num_bytes = carver.used();
  return staged;
}

LaneNeed DeviceFfnNeed(const model::FfnSpec& spec, uint64_t width) {
  const auto most =
      DeviceFfn::Carve(nullptr, width, spec.width, spec.width, kDeviceRows);
  return {.device_bytes = most.num_bytes,
          .pinned_bytes = std::max(most.bytes_in + most.bytes_out,
                                   WeightLoader::kStagingBytes)};
}

DeviceFfn::DeviceFfn(const ResidentParts& parts, ResidentRecords records)
    : lane_(*parts.lane),
      records_(std::move(records)),
      args_(records_.args()),
      num_wanted_(kDeviceRows) {}

void DeviceFfn::Start(size_t num_rows) {
  if (has_begun() && args_.num_tokens == num_rows) return;
  begun_at_.reset();
  Lay(num_rows);
}

void DeviceFfn::Lay(size_t num_rows) {
  TC_CHECK(num_rows <= kDeviceRows);
  const auto carve = [&](std::byte* base) {
    return Carve(base, args_.n, args_.num_neurons, args_.num_slots, num_rows);
  };
  host_ = carve(lane_.pinned_memory());
  device_ = carve(lane_.device_memory());
  args_.num_tokens = static_cast<uint32_t>(num_rows);
  args_.x = device_.x;
  args_.sets = device_.sets;
  args_.out = device_.out;
  args_.fired = device_.fired;
  args_.num_listed = device_.num_listed;
  args_.scratch = device_.scratch;
}

Result<std::unique_ptr<DeviceFfn>> DeviceFfn::Make(const ResidentParts& parts) {
  TC_ASSIGN_OR_RETURN(ResidentRecords records, ResidentRecords::Make(parts));
  return std::unique_ptr<DeviceFfn>(new DeviceFfn(parts, std::move(records)));
}

void DeviceFfn::SetRow(size_t t, const float* x,
                       const neuron::NeuronSet* wanted) {
  if (wanted == nullptr) begun_at_.reset();
  std::copy_n(x, args_.n, host_.x + t * args_.n);
  const size_t words = DeviceSetWords(args_.num_neurons);
  const uint64_t* resident = this->resident().words;
  const uint64_t* from = wanted ? wanted->words : resident;
  std::memcpy(host_.sets + t * words, from, words * sizeof(uint32_t));
  size_t count = 0;
  for (size_t i = 0; i < neuron::WordsOf(args_.num_neurons); ++i) {
    count += static_cast<size_t>(std::popcount(from[i] & resident[i]));
  }
  num_wanted_[t] = count;
}

Status DeviceFfn::BeginChosen(size_t num_rows) {
  begun_at_.reset();
  Lay(num_rows);
  TC_RETURN_IF_ERROR(Enqueue());
  begun_at_ = lane_.num_drains();
  return {};
}

Status DeviceFfn::Begin() {
  if (has_begun()) {
    begun_at_.reset();
    is_idle_ = false;
    return {};
  }
  const size_t num_rows = args_.num_tokens;
  is_idle_ = std::all_of(num_wanted_.begin(),
                         num_wanted_.begin() + static_cast<ptrdiff_t>(num_rows),
                         [](size_t count) { return count == 0; });
  if (is_idle_) {
    std::fill_n(host_.fired, num_rows * DeviceSetWords(args_.num_neurons), 0u);
    return {};
  }
  TC_RETURN_IF_ERROR(
      lane_.device().Copy(lane_.stream(), device_.x, host_.x, host_.bytes_in));
  return Enqueue();
}

// Of what is in the device's memory.
Status DeviceFfn::Enqueue() {
  device::Device& device = lane_.device();
  TC_RETURN_IF_ERROR(device.Run(lane_.stream(), args_));
  TC_RETURN_IF_ERROR(
      device.Copy(lane_.stream(), host_.out, device_.out, host_.bytes_out));
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
        (uint64_t{words[i]} << i % 2 * 32) & resident().words[i / 2];
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

}  // namespace thermocline::engine
