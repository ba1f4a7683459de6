#include "predictor/expert_parts.h"

#include "model/tensor_binder.h"

namespace thermocline::predictor {

model::PredictorWeights PartOf(const model::PredictorWeights& layer,
                               size_t first, size_t count) {
  model::PredictorWeights part = layer;
  part.down = model::SliceRows(layer.down, first, count);
  part.down_bias = model::SliceVector(layer.down_bias, first, count);
  return part;
}

model::TrainingFreeWeights PartOf(const model::TrainingFreeWeights& layer,
                                  size_t first, size_t count) {
  model::TrainingFreeWeights part = layer;
  part.signs = model::SliceRows(layer.signs, first, count);
  part.down = model::SliceRows(layer.down, first, count);
  part.bias = model::SliceVector(layer.bias, first, count);
  return part;
}

}  // namespace thermocline::predictor
