#include "engine/stream/record_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace thermocline::engine {
namespace {

// How often the neurons of a layer fired in the file's profile, or nothing.
std::vector<float> FrequencyOf(const model::LayerWeights& layer) {
  const TensorView& counts = layer.profile_counts;
  std::vector<float> frequency;
  if (!counts || !counts.in_memory()) return frequency;
  for (size_t i = 0; i < counts.shape.num_elems(); ++i) {
    int32_t count;
    std::memcpy(&count, counts.data + i * sizeof(count), sizeof(count));
    frequency.push_back(static_cast<float>(count));
  }
  return frequency;
}

Result<std::unique_ptr<residency::Policy>> MakePolicyFor(
    const model::Config& config, const StreamOptions& options,
    const std::vector<std::vector<float>>& frequencies) {
  std::vector<residency::LayerExtent> layers;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layers.push_back(
        {.num_units = static_cast<uint32_t>(config.layers[i].ffn.width),
         .capacity = options.arena.resident[i],
         .frequency = frequencies[i]});
  }
  return residency::MakePolicy(PolicyOf(options.policy), layers);
}

std::vector<std::string> PathsOf(const gguf::File& file) {
  std::vector<std::string> paths;
  for (int i = 0; i < file.num_shards(); ++i) {
    paths.push_back(file.shard_path(static_cast<uint32_t>(i)));
  }
  return paths;
}

}  // namespace

Result<std::unique_ptr<RecordStream>> RecordStream::Create(
    const model::Model& model, const StreamOptions& options) {
  const model::Config& config = model.config();
  TC_CHECK(config.records.size() == config.layers.size());
  TC_CHECK(options.arena.resident.size() == config.layers.size());
  std::vector<std::vector<float>> frequencies;
  for (const model::LayerWeights& layer : model.weights().layers) {
    frequencies.push_back(FrequencyOf(layer));
  }
  TC_ASSIGN_OR_RETURN(auto policy, MakePolicyFor(config, options, frequencies));
  const std::vector<std::string> paths = PathsOf(model.file());
  TC_ASSIGN_OR_RETURN(
      auto reader, options.open
                       ? options.open(paths)
                       : storage::OpenReader(paths, storage::ReaderOptions()));
  auto arena = SlotArena::Allocate(options.arena);
  if (!arena) return Annotate("slots of records", arena.error());
  return std::unique_ptr<RecordStream>(new RecordStream(
      model, *std::move(arena), std::move(frequencies), std::move(policy),
      std::string(PolicyOf(options.policy)), std::move(reader)));
}

RecordStream::RecordStream(const model::Model& model, SlotArena arena,
                           std::vector<std::vector<float>> frequencies,
                           std::unique_ptr<residency::Policy> policy,
                           std::string policy_name,
                           std::unique_ptr<storage::BlockReader> reader)
    : model_(model),
      policy_name_(std::move(policy_name)),
      frequencies_(std::move(frequencies)),
      shared_(std::make_unique<StreamShared>(
          std::move(arena), std::move(reader), std::move(policy),
          model::MaxFfnWidth(model.config()))) {}

std::string RecordStream::Describe() const {
  const ArenaPlan& plan = arena().plan();
  uint64_t num_neurons = 0;
  for (const model::LayerSpec& layer : model_.config().layers) {
    num_neurons += layer.ffn.width;
  }
  return fmt::format(
      "FFN records {:.0f} % in {} of slots ({})",
      100.0 * static_cast<double>(plan.num_slots() - plan.pass_slots) /
          static_cast<double>(num_neurons),
      FormatBytes(arena().num_bytes()), policy_name_);
}

MakeRecordStore RecordStream::Maker() {
  return [this](size_t layer_idx, size_t expert_idx,
                const model::FfnMatrices& /*matrices*/) {
    TC_CHECK(expert_idx == 0 && layer_idx == stores_.size());
    const model::Config& config = model_.config();
    const std::optional<gguf::FileSpan> span = model_.RecordSpan(layer_idx);
    TC_CHECK(span.has_value());
    auto store =
        StreamedStore::Make({.layer_idx = layer_idx,
                             .num_neurons = config.layers[layer_idx].ffn.width,
                             .layout = config.records[layer_idx],
                             .span = *span,
                             .path = model_.file().shard_path(span->shard_idx)},
                            shared_.get());
    stores_.push_back(store.get());
    return store;
  };
}

}  // namespace thermocline::engine
