#include "engine/ffn/expert_parts.h"

#include "base/check.h"

namespace thermocline::engine {
namespace {

TensorView RowsOf(const TensorView& matrix, size_t first, size_t count) {
  if (!matrix) return matrix;
  TC_CHECK(first + count <= matrix.shape.num_rows());
  TensorView part = matrix;
  part.data += first * matrix.row_stride();
  part.shape = {.ne = {matrix.shape.ne[0], count, 1, 1}, .rank = 2};
  return part;
}

TensorView ElementsOf(const TensorView& vector, size_t first, size_t count) {
  if (!vector) return vector;
  TC_CHECK(first + count <= vector.shape.ne[0]);
  TensorView part = vector;
  part.data += BytesOf(vector.dtype, first);
  part.shape = {.ne = {count, 1, 1, 1}, .rank = 1};
  return part;
}

}  // namespace

model::PredictorWeights PartOf(const model::PredictorWeights& layer,
                               size_t first, size_t count) {
  model::PredictorWeights part = layer;
  part.down = RowsOf(layer.down, first, count);
  part.down_bias = ElementsOf(layer.down_bias, first, count);
  return part;
}

model::FreePredictorWeights PartOf(const model::FreePredictorWeights& layer,
                                   size_t first, size_t count) {
  model::FreePredictorWeights part = layer;
  part.signs = RowsOf(layer.signs, first, count);
  part.down = RowsOf(layer.down, first, count);
  part.bias = ElementsOf(layer.bias, first, count);
  return part;
}

}  // namespace thermocline::engine
