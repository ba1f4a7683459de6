#include "engine/ffn/ffn_layers.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/ffn/device_experts.h"
#include "engine/ffn/device_matrices.h"
#include "engine/ffn/expert_ffn.h"
#include "engine/ffn/sparse_ffn.h"
#include "engine/stream/streamed_dense.h"
#include "predictor/expert_parts.h"
#include "predictor/low_rank.h"

namespace thermocline::engine {
namespace {

using model::LayerWeights;

const model::TrainingFreeWeights& TrainingFreeOf(const FfnParts& parts,
                                                 size_t layer_idx) {
  if (parts.signs != nullptr) return parts.signs->layer(layer_idx);
  return parts.model->weights().layers[layer_idx].training_free;
}

// In kFast.
bool HasPredictor(const FfnParts& parts, size_t layer_idx) {
  const auto& layers = parts.model->weights().layers;
  if (layer_idx >= layers.size()) return false;
  if (parts.predictor == PredictorChoice::kTrainingFree) {
    return static_cast<bool>(TrainingFreeOf(parts, layer_idx).signs);
  }
  return static_cast<bool>(layers[layer_idx].predictor.up);
}

bool IsMask(const FfnParts& parts) {
  return parts.predictor != PredictorChoice::kTrainingFree &&
         parts.model->config().predictor.is_mask;
}

// The layer whose FFN input the candidates of a layer are chosen from.
size_t SourceOf(const FfnParts& parts, size_t layer_idx) {
  const bool looks_ahead = parts.predictor != PredictorChoice::kTrainingFree &&
                           parts.model->config().predictor.lookahead > 0;
  return looks_ahead && layer_idx > 0 ? layer_idx - 1 : layer_idx;
}

// Another one that somebody else owns.
class SharedSelector final : public predictor::Selector {
 public:
  explicit SharedSelector(predictor::Selector* selector)
      : selector_(*selector) {}

  Status Select(compute::ProductForm form, const compute::Rows& x,
                size_t num_rows, const neuron::ActiveSets& sets) override {
    return selector_.Select(form, x, num_rows, sets);
  }
  size_t num_bytes() const override { return selector_.num_bytes(); }

 private:
  predictor::Selector& selector_;
};

// The device's trained predictor of a layer's neurons, or null.
predictor::Selector* SelectorOnDevice(const FfnParts& parts, size_t layer_idx,
                                      Phase phase) {
  if (phase != Phase::kGenerate || parts.device == nullptr ||
      parts.predictor == PredictorChoice::kTrainingFree) {
    return nullptr;
  }
  return parts.device->predictors[layer_idx].get();
}

// Of the layer's neurons, or of those of one of its experts.
Selection MakeSelection(const FfnParts& parts, size_t layer_idx,
                        size_t expert_idx) {
  const size_t count = parts.model->config().layers[layer_idx].ffn.width;
  const size_t first = expert_idx * count;
  const predictor::SelectorScratch* scratch =
      &parts.scratch[layer_idx].selector;
  std::string title =
      fmt::format("{}: layer {}", parts.model->file().path(), layer_idx);
  if (parts.predictor == PredictorChoice::kTrainingFree) {
    return {
        std::move(title),
        predictor::MakeTrainingFreeSelector(
            predictor::PartOf(TrainingFreeOf(parts, layer_idx), first, count),
            parts.compute, scratch)};
  }
  const model::PredictorConfig& config = parts.model->config().predictor;
  const LayerWeights& layer = parts.model->weights().layers[layer_idx];
  return {std::move(title),
          predictor::MakeLowRankSelector(
              predictor::PartOf(layer.predictor, first, count),
              config.threshold, parts.compute, scratch),
          config.input == model::PredictorInput::kStream};
}

// Those that are made from what the layer without experts reads; its own last:
// on a device they begin its neurons, whose sums nobody else may overwrite.
std::vector<Selection> MakeSelections(const FfnParts& parts, size_t layer_idx,
                                      Phase phase) {
  std::vector<Selection> selections;
  for (const size_t target : {layer_idx + 1, layer_idx}) {
    if (HasPredictor(parts, target) && SourceOf(parts, target) == layer_idx) {
      selections.push_back(MakeSelection(parts, target, 0));
      selections.back().is_of_next_layer = target != layer_idx;
      if (predictor::Selector* there = SelectorOnDevice(parts, target, phase)) {
        selections.back().selector = std::make_unique<SharedSelector>(there);
      }
    }
  }
  return selections;
}

// Prompts in which all neurons are computed are multiplied as matrices, here.
DeviceFfn* DeviceOf(const FfnParts& parts, size_t layer_idx, FfnMode mode,
                    Phase phase) {
  const bool takes = phase == Phase::kGenerate || mode != FfnMode::kDense;
  if (!takes || parts.device == nullptr) return nullptr;
  return parts.device->neurons[layer_idx].get();
}

SparseFfnParts SparsePartsOf(const FfnParts& parts, size_t layer_idx,
                             FfnMode mode, Phase phase) {
  const model::Config& config = parts.model->config();
  const model::NeuronOrder* order = parts.model->neuron_order();
  SparseFfnParts sparse = {
      .layer_idx = layer_idx,
      .config = &config.layers[layer_idx].ffn,
      .weights = &parts.model->weights().layers[layer_idx].ffn,
      .records = parts.records->of(layer_idx, 0),
      .rest_below = RestBelow(config, layer_idx, mode),
      .has_candidates =
          mode == FfnMode::kFast && HasPredictor(parts, layer_idx),
      .is_mask = IsMask(parts),
      .compute = parts.compute,
      .scratch = &parts.scratch[layer_idx],
      .board = parts.board,
      .device = DeviceOf(parts, layer_idx, mode, phase)};
  if (order != nullptr) sparse.order = order->layers[layer_idx];
  // Where records come from the file, one layer ahead of who computes them.
  if (parts.stream != nullptr &&
      parts.stream->store(layer_idx + 1) != nullptr) {
    sparse.next_records = parts.records->of(layer_idx + 1, 0);
  }
  return sparse;
}

// Where all neurons are computed: not one by one, as they lie.
bool ComputesAsMatrices(const FfnParts& parts,
                        const model::FfnMatrices& weights, Phase phase) {
  return !weights.bundled ||
         (phase == Phase::kPrompt && parts.compute->kernels->batch);
}

// One FFN or expert.
std::unique_ptr<FfnExecutor> MakeAllNeurons(const FfnParts& parts,
                                            size_t layer_idx, size_t expert_idx,
                                            const model::FfnWeights* weights,
                                            Phase phase) {
  DeviceFfn* device = DeviceOf(parts, layer_idx, FfnMode::kDense, phase);
  const model::FfnSpec* config = &parts.model->config().layers[layer_idx].ffn;
  const FfnScratch* scratch = &parts.scratch[layer_idx];
  const bool as_matrices = ComputesAsMatrices(parts, *weights, phase);
  const bool is_shared = device != nullptr && SharesNeuronsInDense(*weights);
  if (as_matrices && !is_shared && parts.stream != nullptr) {
    StreamedStore* next =
        config->num_experts == 0 ? parts.stream->store(layer_idx + 1) : nullptr;
    const bool learns = phase == Phase::kPrompt && config->num_experts == 0;
    return MakeStreamedDense(
        {.config = config,
         .weights = weights,
         .store = parts.stream->store(layer_idx, expert_idx),
         .next = next,
         .compute = parts.compute,
         .scratch = scratch,
         .rest_below = learns ? RestBelow(parts.model->config(), layer_idx,
                                          parts.generated)
                              : kNothingRests});
  }
  if (as_matrices && !is_shared) {
    return MakeDenseFfn(config, weights, parts.compute, scratch);
  }
  return MakeSparseFfn({.layer_idx = layer_idx,
                        .config = config,
                        .weights = weights,
                        .records = parts.records->of(layer_idx, expert_idx),
                        .rest_below = kNothingRests,
                        .compute = parts.compute,
                        .scratch = scratch,
                        .board = parts.board,
                        .device = device},
                       {});
}

// One expert of a layer: its predictor is asked once the router has chosen.
std::unique_ptr<FfnExecutor> MakeSparseExpert(
    SparseFfnParts sparse, const FfnParts& parts, size_t layer_idx,
    size_t expert_idx, const model::FfnWeights* weights) {
  sparse.weights = weights;
  sparse.records = parts.records->of(layer_idx, expert_idx);
  std::vector<Selection> selections;
  if (sparse.has_candidates) {
    selections.push_back(MakeSelection(parts, layer_idx, expert_idx));
  }
  return MakeSparseFfn(sparse, std::move(selections));
}

// Where whole FFNs and experts of the phase can be on a device; or null.
const DeviceModel* WholeOnDevice(const FfnParts& parts, Phase phase) {
  return phase == Phase::kGenerate ? parts.device : nullptr;
}

// A layer of kDense without experts.
std::unique_ptr<FfnExecutor> MakeDense(const FfnParts& parts, size_t layer_idx,
                                       Phase phase) {
  const DeviceModel* device = WholeOnDevice(parts, phase);
  if (device != nullptr && device->matrices[layer_idx] != nullptr) {
    return MakeDeviceMatricesFfn(layer_idx,
                                 &parts.model->config().layers[layer_idx].ffn,
                                 device->matrices[layer_idx].get(),
                                 parts.compute, &parts.scratch[layer_idx]);
  }
  return MakeAllNeurons(parts, layer_idx, 0,
                        &parts.model->weights().layers[layer_idx].ffn, phase);
}

NextRouter NextRouterOf(const FfnParts& parts, size_t layer_idx) {
  const model::Config& config = parts.model->config();
  const size_t next = layer_idx + 1;
  if (next == config.layers.size() ||
      config.layers[next].ffn.num_experts !=
          config.layers[layer_idx].ffn.num_experts ||
      config.layers[next].ffn.num_experts_used !=
          config.layers[layer_idx].ffn.num_experts_used) {
    return {};
  }
  const model::FfnWeights& ffn = parts.model->weights().layers[next].ffn;
  return {.layer_idx = next,
          .config = &config.layers[next].ffn,
          .router = ffn.router,
          .norm = {config.norm, config.norm_epsilon, ffn.norm, ffn.norm_bias}};
}

ExpertRecords::Parts ExpertRecordsOf(const FfnParts& parts, size_t layer_idx,
                                     FfnMode mode, Phase phase) {
  if (parts.stream == nullptr) return {};
  const bool has_candidates =
      mode == FfnMode::kFast && HasPredictor(parts, layer_idx);
  const model::FfnMatrices& first =
      parts.model->weights().layers[layer_idx].ffn.experts.front();
  return {.stream = parts.stream,
          .layer_idx = layer_idx,
          .has_candidates = has_candidates,
          .is_mask = IsMask(parts),
          .is_recorded = parts.scratch[layer_idx].experts.sets.is_recorded,
          .reads_whole = mode == FfnMode::kDense &&
                         ComputesAsMatrices(parts, first, phase),
          .open_share =
              OpenShareOf(has_candidates ? Listed::kCandidates : Listed::kAll,
                          RestBelow(parts.model->config(), layer_idx, mode))};
}

std::unique_ptr<FfnExecutor> MakeMixture(const FfnParts& parts,
                                         size_t layer_idx, FfnMode mode,
                                         Phase phase) {
  const DeviceModel* device = WholeOnDevice(parts, phase);
  const auto make = [&](size_t expert_idx, const model::FfnWeights* expert) {
    return mode == FfnMode::kDense
               ? MakeAllNeurons(parts, layer_idx, expert_idx, expert, phase)
               : MakeSparseExpert(SparsePartsOf(parts, layer_idx, mode, phase),
                                  parts, layer_idx, expert_idx, expert);
  };
  return MakeExpertFfn(
      {.layer_idx = layer_idx,
       .config = &parts.model->config().layers[layer_idx].ffn,
       .weights = &parts.model->weights().layers[layer_idx].ffn,
       .compute = parts.compute,
       .scratch = &parts.scratch[layer_idx],
       .make_one = make,
       .stream = parts.experts,
       .next = NextRouterOf(parts, layer_idx),
       .records = ExpertRecordsOf(parts, layer_idx, mode, phase),
       .device = device ? device->experts[layer_idx].get() : nullptr,
       .has_candidates =
           mode == FfnMode::kFast && HasPredictor(parts, layer_idx),
       .is_mask = IsMask(parts)});
}

}  // namespace

float RestBelow(const model::Config& config, size_t layer_idx, FfnMode mode) {
  if (mode == FfnMode::kDense) return kNothingRests;
  // Where neurons are never exactly at rest only a threshold says which are.
  return mode == FfnMode::kThreshold ? config.thresholds[layer_idx] : 0.0f;
}

std::unique_ptr<FfnExecutor> MakeFfn(const FfnParts& parts, size_t layer_idx,
                                     FfnMode mode, Phase phase) {
  TC_CHECK(mode != FfnMode::kAuto);
  if (parts.model->config().layers[layer_idx].ffn.num_experts > 0) {
    return MakeMixture(parts, layer_idx, mode, phase);
  }
  if (mode == FfnMode::kDense) return MakeDense(parts, layer_idx, phase);
  return MakeSparseFfn(SparsePartsOf(parts, layer_idx, mode, phase),
                       mode == FfnMode::kFast
                           ? MakeSelections(parts, layer_idx, phase)
                           : std::vector<Selection>());
}

void FillFfnScratch(const FfnParts& parts) {
  uint32_t* ids = parts.scratch.front().sparse.all_ids;  // of all layers
  if (ids == nullptr) return;
  std::iota(ids, ids + MaxFfnWidth(parts.model->config()), 0u);
}

}  // namespace thermocline::engine
