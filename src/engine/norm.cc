#include "engine/norm.h"

namespace thermocline::engine {

void Normalize(const Compute& compute, const model::Config& config,
               const TensorView& weight, const TensorView& bias, const Rows& x,
               size_t num_tokens, const Rows& out) {
  const kernels::KernelTable& kernels = *compute.kernels;
  const auto* weights = reinterpret_cast<const float*>(weight.data);
  const auto* biases = reinterpret_cast<const float*>(bias.data);
  compute.pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          if (config.norm == model::NormKind::kRms) {
            kernels.rms_norm(x.row(t), weights, config.norm_epsilon, x.width,
                             out.row(t));
          } else {
            kernels.layer_norm(x.row(t), weights, biases, config.norm_epsilon,
                               x.width, out.row(t));
          }
        }
      });
}

}  // namespace thermocline::engine
