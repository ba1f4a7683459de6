// The predictor that needs no training: signs, then a low-rank image.
#ifndef THERMOCLINE_ENGINE_FFN_FREE_SELECTOR_H_
#define THERMOCLINE_ENGINE_FFN_FREE_SELECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/ffn/selector.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// As model::FreePredictorWeights says, with x what the FFN reads (normed).
// Everything that it is given, and what the weights view, outlives it. Requires
// signs, 8-byte aligned, and R <= F. One parallel region; three with a margin,
// and for a batch as MultiplyAll says.
// Cost: reads a bit per weight of the tested matrix, then `up` and the rows of
// `down` of neurons that the signs let through.
// Source: SparseInfer 4.
std::unique_ptr<Selector> MakeFreeSelector(
    const model::FreePredictorWeights& weights, size_t layer_idx,
    const Compute* compute, const Scratch* scratch);

// The signs of the matrices that decide which neurons fire (gate, or up without
// one), made when a session opens, for files that bring none. A neuron goes on
// if at most half of its signs differ from the input's: SparseInfer's rule with
// alpha = 1, which takes the terms of a product to be of equal size.
class OwnSigns {
 public:
  // Bytes that Make takes.
  static uint64_t NumBytes(const model::Config& config);

  // Reads the tested matrices of all layers once.
  static OwnSigns Make(const model::Config& config,
                       const model::Weights& weights, const Compute& compute);

  const model::FreePredictorWeights& layer(size_t layer_idx) const {
    return layers_[layer_idx];
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<model::FreePredictorWeights> layers_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FREE_SELECTOR_H_
