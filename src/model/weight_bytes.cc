#include "model/weight_bytes.h"

#include <algorithm>
#include <variant>

#include "model/tensor_roles.h"

namespace thermocline::model {
namespace {

uint64_t BytesOf(const TensorView& view) { return view ? view.num_bytes() : 0; }

// What computing every neuron reads.
uint64_t MatrixBytes(const FfnMatrices& matrices) {
  return BytesOf(matrices.gate) + BytesOf(matrices.up) +
         BytesOf(matrices.down ? matrices.down : matrices.down_t);
}

bool IsOfAttention(const TensorRole& role) {
  return std::holds_alternative<TensorView AttentionWeights::*>(role.slot);
}
bool IsOfFfn(const TensorRole& role) {
  return std::holds_alternative<TensorView FfnWeights::*>(role.slot);
}
bool IsOfPredictor(const TensorRole& role) {
  return std::holds_alternative<TensorView PredictorWeights::*>(role.slot);
}

}  // namespace

uint64_t FixedWeightBytes(const Weights& weights, uint64_t num_tokens) {
  uint64_t num_bytes = 0;
  ForEachModelTensor(
      weights, [&](const TensorRole& role, const TensorView& view) {
        const bool is_table = role.use == TensorUse::kPositionEmbedding ||
                              role.use == TensorUse::kTokenEmbedding;
        if (!is_table) {
          num_bytes += BytesOf(view);
        } else if (view &&
                   !(role.use == TensorUse::kTokenEmbedding && weights.tied)) {
          num_bytes += num_tokens * view.row_bytes();
        }
      });
  for (const LayerWeights& layer : weights.layers) {
    ForEachLayerTensor(layer,
                       [&](const TensorRole& role, const TensorView& view) {
                         if (IsOfAttention(role) || IsOfFfn(role)) {
                           num_bytes += BytesOf(view);
                         }
                       });
  }
  return num_bytes;
}

uint64_t FfnMatrixBytes(const FfnSpec& spec, const FfnWeights& weights,
                        uint64_t num_tokens) {
  if (spec.num_experts == 0) return MatrixBytes(weights);
  uint64_t num_bytes = 0;
  for (const FfnMatrices& expert : weights.experts) {
    num_bytes += MatrixBytes(expert);
  }
  return num_bytes / spec.num_experts *
         std::min(spec.num_experts, num_tokens * spec.num_experts_used);
}

uint64_t UnitBytes(const Config& config, const Weights& weights,
                   size_t layer_idx) {
  const FfnSpec& spec = config.layers[layer_idx].ffn;
  const FfnWeights& ffn = weights.layers[layer_idx].ffn;
  const bool is_mixture = spec.num_experts > 0;
  const FfnMatrices& matrices = is_mixture ? ffn.experts.front() : ffn;
  uint64_t num_bytes = MatrixBytes(matrices);
  if (!config.records.empty()) {
    const neuron::RecordLayout& record = config.records[layer_idx];
    num_bytes = record.stride * spec.width;
    if (!record.gate) num_bytes += BytesOf(matrices.gate);
  }
  return is_mixture ? num_bytes : num_bytes / spec.width;
}

uint64_t PredictorBytes(const LayerWeights& layer) {
  uint64_t num_bytes = 0;
  ForEachLayerTensor(layer,
                     [&](const TensorRole& role, const TensorView& view) {
                       if (IsOfPredictor(role)) num_bytes += BytesOf(view);
                     });
  return num_bytes;
}

uint64_t TrainingFreeBytes(const LayerWeights& layer) {
  const TrainingFreeWeights& weights = layer.training_free;
  return BytesOf(weights.signs) + BytesOf(weights.up) + BytesOf(weights.down) +
         BytesOf(weights.bias);
}

}  // namespace thermocline::model
