#include "compute/norm.h"

namespace thermocline::compute {

void Normalize(const Compute& compute, const Norm& norm, const Rows& x,
               size_t num_tokens, const Rows& out) {
  const kernels::KernelTable& kernels = *compute.kernels;
  const auto* weight = reinterpret_cast<const float*>(norm.weight.data);
  const auto* bias = reinterpret_cast<const float*>(norm.bias.data);
  compute.pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          if (norm.kind == NormKind::kRms) {
            kernels.rms_norm(x.row(t), weight, norm.epsilon, x.width,
                             out.row(t));
          } else {
            kernels.layer_norm(x.row(t), weight, bias, norm.epsilon, x.width,
                               out.row(t));
          }
        }
      });
}

}  // namespace thermocline::compute
