// The operations of graph.h on the host, plainly: what static_device.h says of
// the reference.
#ifndef THERMOCLINE_NPU_REFERENCE_OPS_H_
#define THERMOCLINE_NPU_REFERENCE_OPS_H_

#include <span>
#include <vector>

#include "base/status.h"
#include "npu/graph.h"
#include "npu/reference_tensor.h"

namespace thermocline::npu {

// Those that compute: element by element, kConvert, kSoftmax, kReduceMean,
// kMatMul. Requires a node of a graph, and its inputs.
HostTensor Compute(const Node& node, std::span<const HostTensor> inputs);

// [.., M, K] x [.., K, N], each perhaps with its last two dimensions swapped.
// A sum is in double, in the order of K.
HostTensor MatrixProduct(const Node& node, const HostTensor& a,
                         const HostTensor& b);

// Those that move: kReshape, kTranspose, kConcat, kVariadicSplit, kSlice,
// kGather, kScatterUpdate; of any element. kInvalidArgument: a number of a row
// that is none; negative ones are none. Of rows named twice the last stays.
Result<std::vector<HostTensor>> Move(const Graph& graph, const Node& node,
                                     std::span<const HostTensor> inputs);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_REFERENCE_OPS_H_
