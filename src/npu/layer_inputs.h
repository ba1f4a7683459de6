// A layer's weights as tensors: constants of its graph, or parameters of a
// graph that serves all layers.
#ifndef THERMOCLINE_NPU_LAYER_INPUTS_H_
#define THERMOCLINE_NPU_LAYER_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "npu/forms.h"
#include "npu/graph.h"

namespace thermocline::npu {

// One tensor.
struct LayerInput {
  std::string
      name;  // "w_q", "s_q" (scales), "z_q" (zero points), "b_q", "n_attn"
  Type type;
};

// Those of a layer, in a fixed order; the same for layers of one shape and
// types of weights. kUnsupported as of CheckCanBuild.
Result<std::vector<LayerInput>> LayerInputs(const model::Model& model,
                                            size_t layer_idx, WeightForm form);

// How far the matrices are from the file's.
struct UnpackError {
  double worst = 0.0;      // root of squared error over squared signal
  std::string worst_name;  // of the matrix
};

// Writes the tensors `first` to `last` (exclusive) of LayerInputs: number i to
// data[i], its type's NumBytes; the others of `data` are not read. Of
// `weights`, which lie in memory: model's own, or another view of layer
// layer_idx. Any number of callers at a time, for layers or for parts of one; a
// matrix is best taken with its scales, which are found together. error: takes
// the worst of what it has and what is written; or null. kInvalidArgument: a
// number of the file is not finite, or too large for F16.
Status UnpackLayer(const model::Model& model,
                   const model::LayerWeights& weights, size_t layer_idx,
                   WeightForm form, size_t first, size_t last,
                   std::span<std::byte* const> data, UnpackError* error);

// The same of any matrix [N, K]: for heads. Adds the nodes that give it as F32,
// to be multiplied with transpose_b.
// What AddMatrix adds: of its scales and zero points the bytes alone.
struct MatrixBytes {
  Element element = Element::kF16;
  uint64_t num_bytes = 0;
};
MatrixBytes MatrixBytesOf(const TensorView& matrix, WeightForm form);
Result<Value> AddMatrix(Graph& graph, const TensorView& matrix, WeightForm form,
                        UnpackError* error);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_LAYER_INPUTS_H_
