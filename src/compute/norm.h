// Normalisation of activations, over all threads.
#ifndef THERMOCLINE_COMPUTE_NORM_H_
#define THERMOCLINE_COMPUTE_NORM_H_

#include <cstddef>

#include "compute/matmul.h"
#include "compute/rows.h"
#include "tensor/op_kinds.h"
#include "tensor/tensor_view.h"

namespace thermocline::compute {

struct Norm {
  NormKind kind = NormKind::kRms;
  float epsilon = 0.0f;
  TensorView weight;  // [D] F32
  TensorView bias;    // [D] F32 or absent, read by layer norms only
};

// out[t] = norm(x[t]), t < num_tokens. out may be x.
void Normalize(const Compute& compute, const Norm& norm, const Rows& x,
               size_t num_tokens, const Rows& out);

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_NORM_H_
