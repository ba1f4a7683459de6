// The predictor that needs no training: signs, then a low-rank image.
#ifndef THERMOCLINE_PREDICTOR_TRAINING_FREE_H_
#define THERMOCLINE_PREDICTOR_TRAINING_FREE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compute/matmul.h"
#include "model/config.h"
#include "model/model.h"
#include "os/memory.h"
#include "predictor/selector.h"

namespace thermocline::predictor {

// As model::TrainingFreeWeights says, with x what the FFN reads (normed).
// Everything that it is given, and what the weights view, outlives it. Requires
// signs, 8-byte aligned, and R <= scratch.hidden.width. One parallel region;
// three with a margin, and for several rows as MultiplyAll says. Cost: reads a
// bit per weight of the tested matrix, then `up` and the rows of `down` of
// neurons that the signs let through. Source: SparseInfer 4.
std::unique_ptr<Selector> MakeTrainingFreeSelector(
    const model::TrainingFreeWeights& weights, const compute::Compute* compute,
    const SelectorScratch* scratch);

// The signs of the matrices that decide which neurons fire (gate, or up without
// one), made when a session opens, for files that bring none. A neuron goes on
// if at most half of its signs differ from the input's: SparseInfer's rule with
// alpha = 1, which takes the terms of a product to be of equal size.
class OwnSigns {
 public:
  // Bytes that Make takes.
  static uint64_t NumBytes(const model::Config& config);

  // Reads the tested matrices of all layers once. kResourceExhausted: no
  // memory.
  static Result<OwnSigns> Make(const model::Config& config,
                               const model::Weights& weights,
                               const compute::Compute& compute);

  const model::TrainingFreeWeights& layer(size_t layer_idx) const {
    return layers_[layer_idx];
  }

 private:
  explicit OwnSigns(os::AlignedBuffer words) : words_(std::move(words)) {}

  os::AlignedBuffer words_;
  std::vector<model::TrainingFreeWeights> layers_;
};

}  // namespace thermocline::predictor

#endif  // THERMOCLINE_PREDICTOR_TRAINING_FREE_H_
