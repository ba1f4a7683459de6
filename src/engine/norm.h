// Normalisation of activations, over all threads.
#ifndef THERMOCLINE_ENGINE_NORM_H_
#define THERMOCLINE_ENGINE_NORM_H_

#include <cstddef>

#include "engine/matmul.h"
#include "engine/rows.h"
#include "model/config.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

// out[t] = norm(x[t]), RMS or layer norm as the config says, t < num_tokens.
// weight [D] F32; bias [D] F32 or absent, read by layer norms only.
void Normalize(const Compute& compute, const model::Config& config,
               const TensorView& weight, const TensorView& bias, const Rows& x,
               size_t num_tokens, const Rows& out);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_NORM_H_
