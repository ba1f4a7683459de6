#include "engine/weight_bytes.h"

#include <algorithm>
#include <initializer_list>

namespace thermocline::engine {
namespace {

// What computing every neuron reads.
uint64_t MatrixBytes(const model::FfnMatrices& matrices) {
  uint64_t num_bytes = 0;
  for (const TensorView& view :
       {matrices.gate, matrices.up,
        matrices.down ? matrices.down : matrices.down_t}) {
    if (view) num_bytes += view.num_bytes();
  }
  return num_bytes;
}

// Of experts those that num_tokens tokens can choose.
uint64_t FfnMatrixBytes(const model::FfnConfig& config,
                        const model::FfnWeights& weights, uint64_t num_tokens) {
  if (config.num_experts == 0) return MatrixBytes(weights);
  uint64_t num_bytes = 0;
  for (const model::FfnMatrices& expert : weights.experts) {
    num_bytes += MatrixBytes(expert);
  }
  const uint64_t num_experts = static_cast<uint64_t>(config.num_experts);
  const uint64_t num_used = static_cast<uint64_t>(config.num_experts_used);
  return num_bytes / num_experts * std::min(num_experts, num_tokens * num_used);
}

uint64_t SumOfBytes(std::initializer_list<TensorView> views) {
  uint64_t num_bytes = 0;
  for (const TensorView& view : views) {
    if (view) num_bytes += view.num_bytes();
  }
  return num_bytes;
}

}  // namespace

uint64_t FixedWeightBytes(const model::Model& model, uint64_t num_tokens) {
  const model::Weights& weights = model.weights();
  uint64_t num_bytes =
      SumOfBytes({weights.output_norm, weights.output_norm_bias, weights.head});
  if (weights.position_embedding) {
    num_bytes += num_tokens * weights.position_embedding.row_bytes();
  }
  if (!weights.tied) {
    num_bytes += num_tokens * weights.token_embedding.row_bytes();
  }
  for (const model::LayerWeights& layer : weights.layers) {
    const model::AttentionWeights& a = layer.attention;
    const model::FfnWeights& f = layer.ffn;
    num_bytes += SumOfBytes({a.norm, a.norm_bias, a.q, a.k, a.v, a.out}) +
                 SumOfBytes({a.q_bias, a.k_bias, a.v_bias, a.out_bias}) +
                 SumOfBytes({f.norm, f.norm_bias, f.router, f.gate_bias,
                             f.up_bias, f.down_bias});
  }
  return num_bytes;
}

uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             uint64_t num_tokens) {
  uint64_t num_bytes = FixedWeightBytes(model, num_tokens);
  for (const model::LayerWeights& layer : model.weights().layers) {
    num_bytes += FfnMatrixBytes(model.config().ffn, layer.ffn, num_tokens);
    if (ffn != FfnMode::kFast) continue;
    const model::PredictorWeights& p = layer.predictor;
    num_bytes += SumOfBytes({p.up, p.up_bias, p.down, p.down_bias});
  }
  return num_bytes;
}

}  // namespace thermocline::engine
