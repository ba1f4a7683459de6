#include "engine/ffn/device_experts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "compute/carver.h"

namespace thermocline::engine {
namespace {

using kernels::kDeviceRows;
static_assert(std::endian::native == std::endian::little);  // sets' words

model::FfnWeights AsFfn(const model::FfnMatrices& expert) {
  model::FfnWeights weights;
  static_cast<model::FfnMatrices&>(weights) = expert;
  return weights;
}

Status CheckMode(FfnMode mode) {
  if (mode == FfnMode::kDense || mode == FfnMode::kExact) return {};
  return Fail(ErrorCode::kUnsupported,
              "an expert's down matrix is not transposed, so that all of its "
              "neurons would be computed: the file is not prepared");
}

void AddWords(const uint32_t* words, const neuron::NeuronSet& set) {
  const size_t num_words = kernels::DeviceSetWords(set.num_neurons);
  for (size_t i = 0; i < num_words; ++i) {
    set.words[i / 2] |= uint64_t{words[i]} << i % 2 * 32;
  }
}

}  // namespace

Result<uint64_t> DeviceExpertBytes(const model::FfnSpec& spec,
                                   const model::FfnMatrices& expert,
                                   FfnMode mode,
                                   const device::RowLayout& layout) {
  const model::FfnWeights weights = AsFfn(expert);
  if (!weights.down_t) {
    TC_RETURN_IF_ERROR(CheckMode(mode));
    return DeviceMatrices::NumBytes(spec, weights, layout);
  }
  TC_ASSIGN_OR_RETURN(const DeviceRecords records,
                      PlanDeviceRecords(spec, weights, layout));
  return records.BytesFor(spec.width);
}

DeviceExperts::Staged DeviceExperts::Carve(std::byte* base,
                                           const model::FfnSpec& spec,
                                           uint64_t width, bool is_pinned) {
  compute::Carver carver(base);
  const uint64_t num_choices = kDeviceRows * spec.num_experts_used;
  const uint64_t num_words = kernels::DeviceSetWords(spec.width);
  // Room for what each group begins behind the last one: PlaceOf.
  const auto take = [&]<typename T>(T*& array, uint64_t elems) {
    array = carver.Take<T>(num_choices + 1, elems + 4);
  };
  Staged staged;
  take(staged.x, width);
  take(staged.sets, num_words);
  take(staged.out, width);
  take(staged.fired, num_words);
  const uint64_t num_kept = is_pinned ? num_choices : kDeviceRows;
  staged.raw = carver.Take<float>(num_kept, spec.width);
  staged.hidden = carver.Take<float>(num_kept, spec.width);
  if (!is_pinned) {
    staged.scratch = carver.TakeBytes(
        std::max(kernels::SparseFfnScratchBytes(width, spec.width, kDeviceRows),
                 DeviceMatrices::ScratchBytes(spec, width)),
        1);
  }
  staged.num_bytes = carver.used();
  return staged;
}

LaneNeed DeviceExpertsNeed(const model::FfnSpec& spec, uint64_t width) {
  const auto carve = [&](bool is_pinned) {
    return DeviceExperts::Carve(nullptr, spec, width, is_pinned).num_bytes;
  };
  return {.device_bytes = carve(false),
          .pinned_bytes = std::max(carve(true), WeightLoader::kStagingBytes)};
}

DeviceExperts::DeviceExperts(const DeviceExpertsParts& parts)
    : lane_(*parts.lane),
      width_(parts.weights->experts.front().up.shape.ne[0]),
      num_neurons_(parts.spec->width),
      num_words_(kernels::DeviceSetWords(parts.spec->width)),
      experts_(parts.spec->num_experts),
      host_(Carve(lane_.pinned_memory(), *parts.spec, width_, true)),
      device_(Carve(lane_.device_memory(), *parts.spec, width_, false)),
      group_of_(parts.spec->num_experts) {
  groups_.reserve(kDeviceRows * parts.spec->num_experts_used);
}

Result<std::unique_ptr<DeviceExperts>> DeviceExperts::Make(
    const DeviceExpertsParts& parts) {
  std::unique_ptr<DeviceExperts> experts(new DeviceExperts(parts));
  for (const uint32_t expert_idx : parts.resident) {
    const Status status = experts->Load(parts, expert_idx);
    if (!status) {
      return Annotate(fmt::format("expert {}", expert_idx), status.error());
    }
  }
  return experts;
}

Status DeviceExperts::Load(const DeviceExpertsParts& parts, size_t expert_idx) {
  const model::FfnWeights weights =
      AsFfn(parts.weights->experts.at(expert_idx));
  Expert& expert = experts_[expert_idx];
  if (!weights.down_t) {
    TC_RETURN_IF_ERROR(CheckMode(parts.mode));
    TC_ASSIGN_OR_RETURN(
        expert.matrices,
        DeviceMatrices::Make(*parts.spec, weights, &lane_, parts.memory));
    return {};
  }
  has_raw_ = false;
  std::vector<uint32_t> all(num_neurons_);
  std::iota(all.begin(), all.end(), 0u);
  TC_ASSIGN_OR_RETURN(expert.records,
                      ResidentRecords::Make({.spec = parts.spec,
                                             .weights = &weights,
                                             .rest_below = parts.rest_below,
                                             .resident = all,
                                             .lane = &lane_,
                                             .memory = parts.memory}));
  return {};
}

void DeviceExperts::AddExpert(size_t expert_idx) {
  TC_CHECK(Has(expert_idx) && groups_.size() < groups_.capacity());
  const size_t first =
      groups_.empty() ? 0 : groups_.back().first + groups_.back().count;
  group_of_[expert_idx] = groups_.size();
  groups_.push_back({.expert_idx = expert_idx, .first = first});
}

void DeviceExperts::AddRow(const float* x, const neuron::NeuronSet* wanted) {
  Group& group = groups_.back();
  const size_t i = group.count++;
  TC_CHECK(group.count <= kDeviceRows);
  const size_t group_idx = groups_.size() - 1;
  std::copy_n(x, width_, host_.x + BeginOf(group_idx, width_) + i * width_);
  const Expert& expert = experts_[group.expert_idx];
  if (!expert.records) return;  // all neurons
  const uint64_t* from =
      wanted ? wanted->words : expert.records->resident().words;
  std::memcpy(host_.sets + BeginOf(group_idx, num_words_) + i * num_words_,
              from, num_words_ * sizeof(uint32_t));
}

Status DeviceExperts::Begin(bool keeps_hidden) {
  keeps_hidden_ = keeps_hidden;
  is_begun_ = !groups_.empty();
  if (!is_begun_) return {};
  return Enqueue();
}

Status DeviceExperts::Enqueue() {
  TC_RETURN_IF_ERROR(Copy(device_.x, host_.x, End(width_)));
  if (!has_raw_) {
    TC_RETURN_IF_ERROR(Copy(device_.sets, host_.sets, End(num_words_)));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Expert& expert = experts_[groups_[g].expert_idx];
    TC_RETURN_IF_ERROR(expert.records ? EnqueueRecords(g, *expert.records)
                                      : EnqueueMatrices(g, *expert.matrices));
  }
  TC_RETURN_IF_ERROR(Copy(host_.out, device_.out, End(width_)));
  if (!has_raw_) {
    TC_RETURN_IF_ERROR(Copy(host_.fired, device_.fired, End(num_words_)));
  }
  return lane_.device().Record(lane_.stream(), lane_.done());
}

Status DeviceExperts::EnqueueRecords(size_t group_idx,
                                     const ResidentRecords& records) {
  const size_t row = BeginOf(group_idx, width_);
  const size_t words = BeginOf(group_idx, num_words_);
  kernels::SparseFfnArgs args = records.args();
  args.num_tokens = static_cast<uint32_t>(groups_[group_idx].count);
  args.x = device_.x + row;
  args.sets = device_.sets + words;
  args.out = device_.out + row;
  args.fired = device_.fired + words;
  args.scratch = device_.scratch;
  return lane_.device().Run(lane_.stream(), args);
}

Status DeviceExperts::EnqueueMatrices(size_t group_idx,
                                      const DeviceMatrices& matrices) {
  const Group& group = groups_[group_idx];
  const size_t row = BeginOf(group_idx, width_);
  TC_RETURN_IF_ERROR(matrices.Enqueue({.num_tokens = group.count,
                                       .x = device_.x + row,
                                       .raw = device_.raw,
                                       .hidden = device_.hidden,
                                       .out = device_.out + row,
                                       .scratch = device_.scratch}));
  if (!keeps_hidden_) return {};
  const size_t first = group.first * num_neurons_;
  const size_t count = group.count * num_neurons_;
  TC_RETURN_IF_ERROR(Copy(host_.raw + first, device_.raw, count));
  return Copy(host_.hidden + first, device_.hidden, count);
}

Status DeviceExperts::Copy(void* to, const void* from, size_t num_elems) const {
  static_assert(sizeof(float) == sizeof(uint32_t));
  return lane_.device().Copy(lane_.stream(), to, from,
                             num_elems * sizeof(float));
}

compute::Rows DeviceExperts::AddOther(size_t expert_idx, size_t num_rows) {
  TC_CHECK(!Has(expert_idx) && groups_.size() < groups_.capacity());
  const size_t first =
      groups_.empty() ? 0 : groups_.back().first + groups_.back().count;
  group_of_[expert_idx] = groups_.size();
  groups_.push_back(
      {.expert_idx = expert_idx, .first = first, .count = num_rows});
  return out(expert_idx);
}

Status DeviceExperts::Finish() {
  if (!is_begun_) return {};
  return lane_.device().Synchronize(lane_.done());
}

compute::Rows DeviceExperts::out(size_t expert_idx) const {
  return {host_.out + BeginOf(group_of_[expert_idx], width_), width_, width_};
}

compute::Rows DeviceExperts::raw(size_t expert_idx) const {
  TC_DCHECK(has_raw_ && keeps_hidden_);
  return {host_.raw + GroupOf(expert_idx).first * num_neurons_, num_neurons_,
          num_neurons_};
}

void DeviceExperts::Describe(size_t expert_idx, size_t i,
                             const neuron::NeuronSet& named,
                             const neuron::NeuronSet& fired) const {
  TC_DCHECK(keeps_hidden_);
  named.Clear();
  fired.Clear();
  if (experts_[expert_idx].records) {
    AddWords(WordsOf(host_.sets, expert_idx, i), named);
    AddWords(WordsOf(host_.fired, expert_idx, i), fired);
    return;
  }
  named.Fill();
  const size_t row = GroupOf(expert_idx).first + i;
  AddFired(fired, {host_.hidden + row * num_neurons_, num_neurons_});
}

DeviceExperts::Members DeviceExperts::MembersOf(const uint32_t* sets,
                                                size_t expert_idx) const {
  Members members;
  for (size_t w = 0; w < num_words_; ++w) {
    uint32_t any = 0;
    for (size_t i = 0; i < GroupOf(expert_idx).count; ++i) {
      const uint32_t word = WordsOf(sets, expert_idx, i)[w];
      members.of_rows += static_cast<size_t>(std::popcount(word));
      any |= word;
    }
    members.together += static_cast<size_t>(std::popcount(any));
  }
  return members;
}

void DeviceExperts::Count(size_t expert_idx, SparseTotals& totals) const {
  const Expert& expert = experts_[expert_idx];
  const Members all = {GroupOf(expert_idx).count * num_neurons_, num_neurons_};
  Members named = all;
  Members open = all;
  if (expert.records) {
    named = MembersOf(host_.sets, expert_idx);
    open = MembersOf(host_.fired, expert_idx);
  }
  totals.num_neurons += all.of_rows;
  totals.num_candidates += named.of_rows;
  totals.num_open += open.of_rows;
  totals.num_device_candidates += named.of_rows;
  totals.num_device_open += open.of_rows;
  totals.num_union_neurons += all.together;
  totals.num_union_candidates += named.together;
  totals.num_union_open += open.together;
  totals.num_device_bytes +=
      expert.records ? expert.records->BytesRead(named.together, open.together)
                     : expert.matrices->num_bytes();
}

}  // namespace thermocline::engine
