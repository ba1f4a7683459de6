#include "engine/stream/record_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "engine/stream/expert_plan.h"
#include "engine/stream/read_rates.h"
#include "engine/stream/stream_files.h"
#include "model/firing_shares.h"

namespace thermocline::engine {
namespace {

std::vector<residency::LayerExtent> ExtentsOf(
    const model::Config& config, const StreamOptions& options,
    const std::vector<std::vector<float>>& frequencies) {
  std::vector<residency::LayerExtent> layers;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layers.push_back(
        {.num_units = static_cast<uint32_t>(NumNeurons(config.layers[i].ffn)),
         .capacity = options.arena.resident[i],
         .frequency = frequencies[i]});
  }
  return layers;
}

struct Reading {
  std::unique_ptr<storage::BlockReader> reader;
  ReadPlan plan;
};

// The reader, and how it is best used: measured with the slots as memory, which
// nobody needs yet.
Result<Reading> OpenReading(const model::Model& model,
                            const StreamOptions& options,
                            const SlotArena& arena) {
  Reading reading;
  const auto open = [&](size_t depth) {
    return OpenStreamFiles(
        model.file(), options, arena.memory(),
        {.depth = std::min(depth, storage::ReaderOptions::kDepthMax)});
  };
  const bool looks_ahead = options.mode == StorageMode::kCluster &&
                           model.config().predictor.lookahead > 0;
  const auto depth_of = [&](const ReadPlan& plan) {
    return looks_ahead ? plan.early_depth() : plan.depth;
  };
  if (options.reads || options.open) {
    reading.plan = options.reads.value_or(ReadPlan());
    TC_ASSIGN_OR_RETURN(reading.reader, open(depth_of(reading.plan)));
    return reading;
  }
  const size_t first_depth = ReadPlan().depth;
  TC_ASSIGN_OR_RETURN(reading.reader, open(first_depth));
  const neuron::RecordLayout& layout = model.config().records.front();
  const std::optional<gguf::FileSpan> span = model.RecordSpan(0);
  TC_CHECK(span.has_value());
  reading.plan =
      PlanReads(MeasureReads(*reading.reader, *span, ReadPlan().part_bytes,
                             layout.stride, arena.memory()),
                layout);
  const size_t depth = depth_of(reading.plan);
  if (depth == first_depth) return reading;
  reading.reader.reset();
  TC_ASSIGN_OR_RETURN(reading.reader, open(depth));
  return reading;
}

}  // namespace

Result<std::unique_ptr<RecordStream>> RecordStream::Create(
    const model::Model& model, const StreamOptions& options) {
  const model::Config& config = model.config();
  TC_CHECK(config.records.size() == config.layers.size());
  TC_CHECK(options.arena.resident.size() == config.layers.size());
  std::vector<std::vector<float>> frequencies;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    frequencies.push_back(model::FiringShares(model, i));
  }
  std::vector<residency::LayerExtent> extents =
      ExtentsOf(config, options, frequencies);
  TC_ASSIGN_OR_RETURN(
      auto policy,
      options.make_policy(PolicyOf(options.policy, options.mode), extents));
  auto arena = SlotArena::Allocate(options.arena);
  if (!arena) return Annotate("slots of records", arena.error());
  TC_ASSIGN_OR_RETURN(auto reading, OpenReading(model, options, *arena));
  return std::unique_ptr<RecordStream>(new RecordStream(
      model, options,
      std::make_unique<StreamShared>(
          *std::move(arena), std::move(reading.reader), std::move(policy),
          std::move(extents), model::MaxFfnWidth(config), options.mode,
          reading.plan,
          LiveOptions{.deterministic = options.deterministic,
                      .moves_per_token = options.moves_per_token,
                      .unit_bytes = options.arena.slot_bytes})));
}

RecordStream::RecordStream(const model::Model& model,
                           const StreamOptions& options,
                           std::unique_ptr<StreamShared> shared)
    : model_(model),
      policy_name_(PolicyOf(options.policy, options.mode)),
      shared_(std::move(shared)),
      choice_words_(ChoiceBytes(model.config()) / sizeof(uint64_t)) {}

std::string RecordStream::Describe() const {
  const ArenaPlan& plan = arena().plan();
  uint64_t num_neurons = 0;
  for (const model::LayerSpec& layer : model_.config().layers) {
    num_neurons += NumNeurons(layer.ffn);
  }
  return fmt::format(
      "{} records {:.0f} % in {} of slots ({}; {}{})",
      model_.config().layers.front().ffn.num_experts > 0 ? "experts'" : "FFN",
      100.0 * static_cast<double>(plan.num_slots() - plan.pass_slots) /
          static_cast<double>(num_neurons),
      FormatBytes(arena().num_bytes()), policy_name_,
      shared_->mode == StorageMode::kCluster
          ? ""
          : fmt::format("{}: ", NameOf(shared_->mode)),
      engine::Describe(shared_->plan, model_.config().records.front()));
}

MakeRecordStore RecordStream::Maker() {
  return [this](size_t layer_idx, size_t expert_idx,
                const model::FfnMatrices& /*matrices*/) {
    if (expert_idx == 0) stores_.emplace_back();
    TC_CHECK(layer_idx + 1 == stores_.size() &&
             expert_idx == stores_.back().size());
    const model::FfnSpec& ffn = model_.config().layers[layer_idx].ffn;
    std::optional<gguf::FileSpan> span = model_.RecordSpan(layer_idx);
    TC_CHECK(span.has_value());
    span->num_bytes /= std::max<size_t>(ffn.num_experts, 1);
    span->offset += expert_idx * span->num_bytes;
    auto store =
        StreamedStore::Make({.layer_idx = layer_idx,
                             .num_neurons = ffn.width,
                             .num_experts = ffn.num_experts,
                             .expert_idx = expert_idx,
                             .layout = model_.config().records[layer_idx],
                             .span = *span,
                             .path = model_.file().shard_path(span->shard_idx)},
                            shared_.get());
    stores_.back().push_back(store.get());
    return store;
  };
}

StreamedStore* RecordStream::store(size_t layer_idx) const {
  if (layer_idx >= stores_.size()) return nullptr;
  const model::FfnSpec& ffn = model_.config().layers[layer_idx].ffn;
  return ffn.num_experts == 0 ? stores_[layer_idx].front() : nullptr;
}

void RecordStream::BeginLayer(size_t layer_idx, bool are_together) {
  if (are_together) {
    StreamedStore::BeginTogether(*shared_, layer_idx);
  } else {
    shared_->layers[layer_idx]->is_together = false;
  }
}

void RecordStream::EndLayer(size_t layer_idx) {
  if (shared_->layers[layer_idx]->is_together) {
    StreamedStore::LearnTogether(*shared_, layer_idx);
  }
}

void RecordStream::EndPass() { StreamedStore::CommitMoves(*shared_); }

neuron::ActiveSets RecordStream::choices(size_t layer_idx) {
  return {model_.config().layers[layer_idx].ffn.width, choice_words_.data()};
}

neuron::NeuronSet RecordStream::any_choice(size_t layer_idx) {
  return choices(layer_idx).named(kNumApart);
}

}  // namespace thermocline::engine
