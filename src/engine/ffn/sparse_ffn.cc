#include "engine/ffn/sparse_ffn.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/ffn/low_rank.h"
#include "engine/ffn/sparse_hidden.h"
#include "engine/ffn/sum_rows.h"
#include "engine/profile.h"

namespace thermocline::engine {
namespace {

std::span<const uint32_t> OrderOf(const model::NeuronOrder* order,
                                  size_t layer_idx) {
  if (order == nullptr) return {};
  return order->layers[layer_idx];
}

class SparseFfn final : public FfnExecutor {
 public:
  SparseFfn(const SparseFfnParts& parts, size_t layer_idx)
      : parts_(parts),
        layer_idx_(layer_idx),
        weights_(&parts.weights->layers[layer_idx].ffn),
        hidden_(&parts.config->ffn, weights_, OrderOf(parts.order, layer_idx),
                layer_idx, parts.compute, parts.scratch) {
    if (HasPredictor(layer_idx)) return;
    dense_ = MakeDenseFfn(&parts.config->ffn, weights_, parts.compute,
                          parts.scratch);
  }

  void Select(int64_t first_position, size_t num_tokens) override {
    const Scratch& scratch = *parts_.scratch;
    if (parts_.config->predictor.kind == model::PredictorKind::kPowerInfer) {
      Predict(layer_idx_, scratch.residual, first_position, num_tokens);
      return;
    }
    if (layer_idx_ == 0) {
      Predict(layer_idx_, scratch.normed, first_position, num_tokens);
    }
    Predict(layer_idx_ + 1, scratch.normed, first_position, num_tokens);
  }

  void Run(size_t num_tokens) override {
    if (dense_ != nullptr) {
      dense_->Run(num_tokens);
      return;
    }
    {
      const ScopedStage stage(*parts_.compute, Stage::kUpGate);
      hidden_.Run(num_tokens);
    }
    AddUpHidden(num_tokens);
  }

 private:
  // From the neurons that fired to scratch.delta.
  void AddUpHidden(size_t num_tokens) const {
    const ScopedStage stage(*parts_.compute, Stage::kDown,
                            weights_->down_t ? 0 : weights_->down.num_bytes());
    const Scratch& scratch = *parts_.scratch;
    if (weights_->down_t) {
      SumRows(*parts_.compute,
              {.matrix = weights_->down_t,
               .bias = weights_->down_bias,
               .coefs = scratch.up,
               .ids = scratch.sparse.fired,
               .counts = scratch.sparse.num_fired,
               .out = scratch.delta},
              num_tokens);
      return;
    }
    SpreadHidden(num_tokens);
    const std::array<Product, 1> down = {
        {{weights_->down, weights_->down_bias, scratch.delta}}};
    MultiplyAll(*parts_.compute, scratch.gate, num_tokens, down);
  }

  bool HasPredictor(size_t layer_idx) const {
    const auto& layers = parts_.weights->layers;
    return layer_idx < layers.size() && layers[layer_idx].predictor.up;
  }

  void Predict(size_t layer_idx, const Rows& x, int64_t first_position,
               size_t num_tokens) const {
    if (!HasPredictor(layer_idx)) return;
    const model::PredictorWeights& predictor =
        parts_.weights->layers[layer_idx].predictor;
    const ScopedStage stage(
        *parts_.compute, Stage::kSelect,
        predictor.up.num_bytes() + predictor.down.num_bytes());
    PredictCandidates(*parts_.compute, *parts_.scratch, predictor,
                      parts_.config->predictor.threshold, x, num_tokens,
                      layer_idx);
    if (parts_.activity == nullptr || !*parts_.activity) return;
    for (size_t t = 0; t < num_tokens; ++t) {
      Report(layer_idx, first_position + static_cast<int64_t>(t), t);
    }
  }

  void Report(size_t layer_idx, int64_t position, size_t token_idx) const {
    const SparseScratch& sparse = parts_.scratch->sparse;
    uint32_t* ids = sparse.fired;  // free until Run
    size_t count = 0;
    sparse.candidates(layer_idx, token_idx)
        .ForEachIn(0, sparse.num_neurons, [&](size_t neuron) {
          ids[count++] = static_cast<uint32_t>(neuron);
        });
    (*parts_.activity)(static_cast<int64_t>(layer_idx), position, {ids, count});
  }

  // The hidden vector of all neurons, in scratch.gate.
  void SpreadHidden(size_t num_tokens) const {
    const Scratch& scratch = *parts_.scratch;
    const SparseScratch& sparse = scratch.sparse;
    parts_.compute->pool->ParallelFor(
        num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t t = begin; t < end; ++t) {
            const uint32_t* fired = sparse.fired + t * sparse.num_neurons;
            float* row = scratch.gate.row(t);
            std::ranges::fill(scratch.gate.span(t), 0.0f);
            for (size_t i = 0; i < sparse.num_fired[t]; ++i) {
              row[fired[i]] = scratch.up.row(t)[i];
            }
          }
        });
  }

  SparseFfnParts parts_;
  size_t layer_idx_;
  const model::FfnWeights* weights_;
  SparseHidden hidden_;
  std::unique_ptr<FfnExecutor> dense_;  // of a layer without a predictor
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           int64_t layer_idx) {
  TC_CHECK(parts.config->predictor.kind != model::PredictorKind::kNone);
  return std::make_unique<SparseFfn>(parts, static_cast<size_t>(layer_idx));
}

}  // namespace thermocline::engine
