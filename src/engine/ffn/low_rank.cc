#include "engine/ffn/low_rank.h"

#include <array>

#include "base/check.h"
#include "predictor/threshold.h"

namespace thermocline::engine {

void PredictCandidates(const Compute& compute, const Scratch& scratch,
                       const model::PredictorWeights& weights, float threshold,
                       const Rows& x, size_t num_tokens, size_t layer_idx) {
  const size_t rank = weights.up.shape.num_rows();
  TC_CHECK(weights.up && rank <= scratch.gate.width);
  const Rows hidden = {scratch.gate.data, rank, scratch.gate.stride};
  const std::array<Product, 1> up = {{{weights.up, weights.up_bias, hidden}}};
  MultiplyAll(compute, x, num_tokens, up);
  compute.pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          compute.kernels->activate(Activation::kRelu, 0.0f, nullptr,
                                    hidden.row(t), rank, hidden.row(t));
        }
      });
  const std::array<Product, 1> down = {
      {{weights.down, weights.down_bias, scratch.up}}};
  MultiplyAll(compute, hidden, num_tokens, down);
  compute.pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          predictor::SelectAtLeast(scratch.up.span(t), threshold,
                                   scratch.sparse.candidates(layer_idx, t));
        }
      });
}

}  // namespace thermocline::engine
