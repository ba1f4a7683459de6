// The tensors of a layer as graphs want them, and in which order its heads'
// elements stand.
#ifndef THERMOCLINE_NPU_LAYER_TENSORS_H_
#define THERMOCLINE_NPU_LAYER_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "npu/pack_rows.h"

namespace thermocline::npu {

// A matrix ("q": its inputs are "w_q", "s_q" and "z_q"), or a vector of F32.
struct LayerTensor {
  std::string name;
  bool is_matrix = false;
  MatrixSource source;  // of a vector `order` is that of its elements
};

// Those that the layer has, in the order in which they are used. `weights` is
// of layer layer_idx; its views need not be in memory.
std::vector<LayerTensor> TensorsOf(const model::Model& model,
                                   const model::LayerWeights& weights,
                                   size_t layer_idx);

// Element i of a head of q or k in a graph is element order[i] of the file's;
// empty: they are the same. Graphs rotate i with i + n / 2.
std::vector<uint32_t> HeadOrder(const model::Config& config, size_t layer_idx);

// Writes F32 [N]. kInvalidArgument: an element that is not finite.
Status CopyVector(const MatrixSource& source, std::byte* to);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_LAYER_TENSORS_H_
