#include "predictor/expert_parts.h"

#include "model/tensor_binder.h"

namespace thermocline::predictor {

model::PredictorWeights PartOf(const model::PredictorWeights& layer,
                               size_t first, size_t count) {
  const auto begin = static_cast<int64_t>(first);
  const auto num_rows = static_cast<int64_t>(count);
  model::PredictorWeights part = layer;
  part.down = model::SliceRows(layer.down, begin, num_rows);
  part.down_bias = model::SliceVector(layer.down_bias, begin, num_rows);
  return part;
}

model::TrainingFreeWeights PartOf(const model::TrainingFreeWeights& layer,
                                  size_t first, size_t count) {
  const auto begin = static_cast<int64_t>(first);
  const auto num_rows = static_cast<int64_t>(count);
  model::TrainingFreeWeights part = layer;
  part.signs = model::SliceRows(layer.signs, begin, num_rows);
  part.down = model::SliceRows(layer.down, begin, num_rows);
  part.bias = model::SliceVector(layer.bias, begin, num_rows);
  return part;
}

}  // namespace thermocline::predictor
