#include "engine/ffn/ffn_layers.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "engine/ffn/dense_ffn.h"
#include "engine/ffn/expert_ffn.h"
#include "engine/ffn/expert_parts.h"
#include "engine/ffn/low_rank.h"
#include "engine/ffn/sparse_ffn.h"

namespace thermocline::engine {
namespace {

using model::LayerWeights;
using model::PredictorKind;

const model::FreePredictorWeights& FreeOf(const FfnParts& parts,
                                          size_t layer_idx) {
  if (parts.signs != nullptr) return parts.signs->layer(layer_idx);
  return parts.model->weights().layers[layer_idx].free_predictor;
}

bool HasPredictor(const FfnParts& parts, size_t layer_idx) {
  const auto& layers = parts.model->weights().layers;
  if (parts.mode != FfnMode::kFast || layer_idx >= layers.size()) return false;
  if (parts.predictor == PredictorChoice::kFree) {
    return static_cast<bool>(FreeOf(parts, layer_idx).signs);
  }
  return static_cast<bool>(layers[layer_idx].predictor.up);
}

bool IsMask(const FfnParts& parts) {
  return parts.predictor != PredictorChoice::kFree &&
         parts.model->config().predictor.kind != PredictorKind::kThermocline;
}

// The layer whose FFN input the candidates of a layer are chosen from.
size_t SourceOf(const FfnParts& parts, size_t layer_idx) {
  const bool looks_ahead = parts.predictor != PredictorChoice::kFree &&
                           parts.model->config().predictor.lookahead > 0;
  return looks_ahead && layer_idx > 0 ? layer_idx - 1 : layer_idx;
}

// Of the layer's neurons, or of those of one of its experts.
Selection MakeSelection(const FfnParts& parts, size_t layer_idx,
                        size_t expert_idx, const Scratch* scratch) {
  const auto count = static_cast<size_t>(parts.model->config().ffn_width);
  const size_t first = expert_idx * count;
  if (parts.predictor == PredictorChoice::kFree) {
    return {MakeFreeSelector(PartOf(FreeOf(parts, layer_idx), first, count),
                             layer_idx, parts.compute, scratch),
            &scratch->normed};
  }
  const model::PredictorConfig& config = parts.model->config().predictor;
  return {MakeLowRankSelector(
              PartOf(parts.model->weights().layers[layer_idx].predictor, first,
                     count),
              config.threshold, layer_idx, parts.compute, scratch),
          config.kind == PredictorKind::kPowerInfer ? &scratch->residual
                                                    : &scratch->normed};
}

// Those that are made from what the layer without experts reads.
std::vector<Selection> MakeSelections(const FfnParts& parts, size_t layer_idx) {
  std::vector<Selection> selections;
  for (const size_t target : {layer_idx, layer_idx + 1}) {
    if (HasPredictor(parts, target) && SourceOf(parts, target) == layer_idx) {
      selections.push_back(MakeSelection(parts, target, 0, parts.scratch));
    }
  }
  return selections;
}

// Where neurons are never exactly at rest only a threshold says which are.
float RestBelow(const FfnParts& parts, size_t layer_idx) {
  const auto& thresholds = parts.model->config().thresholds;
  return parts.mode == FfnMode::kThreshold ? thresholds[layer_idx] : 0.0f;
}

SparseFfnParts SparsePartsOf(const FfnParts& parts, size_t layer_idx) {
  const model::NeuronOrder* order = parts.model->neuron_order();
  SparseFfnParts sparse = {
      .config = &parts.model->config().ffn,
      .weights = &parts.model->weights().layers[layer_idx].ffn,
      .rest_below = RestBelow(parts, layer_idx),
      .layer_idx = layer_idx,
      .has_candidates = HasPredictor(parts, layer_idx),
      .is_mask = IsMask(parts),
      .compute = parts.compute,
      .scratch = parts.scratch,
      .board = parts.board,
      .totals = parts.totals};
  if (order != nullptr) sparse.order = order->layers[layer_idx];
  return sparse;
}

// All neurons of records: neuron by neuron, which reads them as they lie; and
// where the size of the batch asks for the products of many tokens
// (kernels/kernels.h), as matrices.
class BundledFfn final : public FfnExecutor {
 public:
  BundledFfn(const Compute* compute, const Scratch* scratch,
             std::unique_ptr<FfnExecutor> neurons,
             std::unique_ptr<FfnExecutor> matrices)
      : compute_(compute),
        scratch_(scratch),
        neurons_(std::move(neurons)),
        matrices_(std::move(matrices)) {}

  void Run(size_t num_tokens) override {
    const size_t batch_tokens = compute_->TokensThatChoose(num_tokens);
    const bool is_few = compute_->kernels->batch_for(batch_tokens) == nullptr;
    (is_few ? neurons_ : matrices_)->Run(num_tokens);
  }

  Rows gate() const override { return scratch_->gate; }

 private:
  const Compute* compute_;
  const Scratch* scratch_;
  std::unique_ptr<FfnExecutor> neurons_, matrices_;
};

std::unique_ptr<FfnExecutor> MakeAllNeurons(const FfnParts& parts,
                                            const model::FfnWeights* weights,
                                            const Scratch* scratch) {
  const model::FfnConfig* config = &parts.model->config().ffn;
  auto matrices = MakeDenseFfn(config, weights, parts.compute, scratch);
  if (!weights->bundled) return matrices;
  auto neurons = MakeSparseFfn({.config = config,
                                .weights = weights,
                                .rest_below = kNothingRests,
                                .compute = parts.compute,
                                .scratch = scratch,
                                .board = parts.board,
                                .totals = parts.totals},
                               {});
  return std::make_unique<BundledFfn>(parts.compute, scratch,
                                      std::move(neurons), std::move(matrices));
}

// One expert of a layer: its predictor is asked once the router has chosen.
std::unique_ptr<FfnExecutor> MakeSparseExpert(SparseFfnParts sparse,
                                              const FfnParts& parts,
                                              size_t expert_idx,
                                              const model::FfnWeights* weights,
                                              const Scratch* scratch) {
  sparse.weights = weights;
  sparse.scratch = scratch;
  std::vector<Selection> selections;
  if (sparse.has_candidates) {
    selections.push_back(
        MakeSelection(parts, sparse.layer_idx, expert_idx, scratch));
  }
  return MakeSparseFfn(sparse, std::move(selections));
}

void ListAllNeurons(const FfnParts& parts) {
  uint32_t* ids = parts.scratch->sparse.all_ids;
  if (ids == nullptr) return;
  std::iota(ids, ids + parts.model->config().ffn_width, 0u);
}

}  // namespace

std::vector<std::unique_ptr<FfnExecutor>> MakeSparseFfns(
    const FfnParts& parts) {
  std::vector<std::unique_ptr<FfnExecutor>> ffns;
  const model::Config& config = parts.model->config();
  ListAllNeurons(parts);
  for (const LayerWeights& layer : parts.model->weights().layers) {
    const size_t layer_idx = ffns.size();
    const SparseFfnParts sparse = SparsePartsOf(parts, layer_idx);
    if (config.ffn.num_experts == 0) {
      ffns.push_back(MakeSparseFfn(sparse, MakeSelections(parts, layer_idx)));
      continue;
    }
    ffns.push_back(MakeExpertFfn(
        &config.ffn, &layer.ffn, parts.compute, parts.scratch,
        [&](size_t expert_idx, const model::FfnWeights* expert,
            const Scratch* scratch) {
          return MakeSparseExpert(sparse, parts, expert_idx, expert, scratch);
        }));
  }
  return ffns;
}

std::vector<std::unique_ptr<FfnExecutor>> MakeDenseFfns(const FfnParts& parts) {
  std::vector<std::unique_ptr<FfnExecutor>> ffns;
  const model::FfnConfig* config = &parts.model->config().ffn;
  ListAllNeurons(parts);
  for (const LayerWeights& layer : parts.model->weights().layers) {
    const auto make = [&](const model::FfnWeights* weights,
                          const Scratch* scratch) {
      return MakeAllNeurons(parts, weights, scratch);
    };
    ffns.push_back(
        config->num_experts > 0
            ? MakeExpertFfn(
                  config, &layer.ffn, parts.compute, parts.scratch,
                  [&](size_t /*expert_idx*/, const model::FfnWeights* expert,
                      const Scratch* scratch) { return make(expert, scratch); })
            : make(&layer.ffn, parts.scratch));
  }
  return ffns;
}

}  // namespace thermocline::engine
