#include "engine/weight_bytes.h"

#include <cstddef>

#include "model/weight_bytes.h"
#include "predictor/training_free.h"

namespace thermocline::engine {
namespace {

// Of all layers.
uint64_t PredictorBytesOf(const model::Model& model,
                          PredictorChoice predictor) {
  const bool is_free = predictor == PredictorChoice::kTrainingFree;
  if (is_free && !model.config().has_training_free) {
    return predictor::OwnSigns::NumBytes(model.config());
  }
  uint64_t num_bytes = 0;
  for (const model::LayerWeights& layer : model.weights().layers) {
    num_bytes += is_free ? model::TrainingFreeBytes(layer)
                         : model::PredictorBytes(layer);
  }
  return num_bytes;
}

}  // namespace

uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             PredictorChoice predictor, uint64_t num_tokens) {
  const model::Weights& weights = model.weights();
  uint64_t num_bytes = model::FixedWeightBytes(weights, num_tokens);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const model::LayerWeights& layer = weights.layers[i];
    num_bytes += model::FfnMatrixBytes(model.config().layers[i].ffn, layer.ffn,
                                       num_tokens);
  }
  if (ffn == FfnMode::kFast) num_bytes += PredictorBytesOf(model, predictor);
  return num_bytes;
}

}  // namespace thermocline::engine
