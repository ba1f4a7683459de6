#include "engine/weight_bytes.h"

#include <cstddef>

#include "model/weight_bytes.h"

namespace thermocline::engine {

uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             uint64_t num_tokens) {
  const model::Weights& weights = model.weights();
  uint64_t num_bytes = model::FixedWeightBytes(weights, num_tokens);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const model::LayerWeights& layer = weights.layers[i];
    num_bytes += model::FfnMatrixBytes(model.config().layers[i].ffn, layer.ffn,
                                       num_tokens);
    if (ffn == FfnMode::kFast) num_bytes += model::PredictorBytes(layer);
  }
  return num_bytes;
}

}  // namespace thermocline::engine
