// The small parts of a layer, in the nodes that devices know them by.
#ifndef THERMOCLINE_NPU_LAYER_NODES_H_
#define THERMOCLINE_NPU_LAYER_NODES_H_

#include <optional>

#include "model/layer_spec.h"
#include "npu/graph.h"
#include "tensor/op_kinds.h"

namespace thermocline::npu {

// Adds the norm of x over its last dimension, times weight, plus bias: squares,
// mean, epsilon, root and quotient one by one, since plugins look for this
// chain to compute it in more than F16.
Value AddNorm(Graph& graph, NormKind kind, float epsilon, Value x, Value weight,
              std::optional<Value> bias);

// Adds heads [1, T, heads, K] with element i rotated with i + n / 2, of the
// first n; cos and sin: [1, T, 1, n / 2].
Value AddRotated(Graph& graph, Value heads, Value cos, Value sin);

// Adds f(x), f the activation of the FFN; of kDRelu that of its gate, which is
// also that of its other half: max(gate, 0) * max(up, 0). What lies below the
// threshold of kFatRelu is 0 exactly.
Value AddActivated(Graph& graph, const model::FfnSpec& ffn, Value x);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_LAYER_NODES_H_
