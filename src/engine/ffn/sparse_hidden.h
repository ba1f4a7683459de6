// The hidden vector of an FFN at the neurons that a predictor chose.
#ifndef THERMOCLINE_ENGINE_FFN_SPARSE_HIDDEN_H_
#define THERMOCLINE_ENGINE_FFN_SPARSE_HIDDEN_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// What Run computes with; everything outlives it.
class SparseHidden {
 public:
  // order [F]: the neuron at each place; empty: place i is neuron i.
  SparseHidden(const model::FfnConfig* config, const model::FfnWeights* weights,
               std::span<const uint32_t> order, size_t layer_idx,
               const Compute* compute, const Scratch* scratch)
      : config_(config),
        weights_(weights),
        order_(order),
        layer_idx_(layer_idx),
        compute_(compute),
        scratch_(scratch) {}

  // For every candidate i of token t in this layer
  //   gated   h = f(gate_i x + b_i) * (up_i x + b'_i), up_i where f(..) != 0
  //   plain   h = f(up_i x + b'_i)
  // with x from scratch.normed [T, D]. Leaves the neurons with h != 0 in
  // scratch.sparse.fired, in the order of their places, and their h from
  // scratch.up[t] on. The same bits for every number of threads and every cut
  // of a batch. Allocates nothing.
  // Cost: reads the gate rows of candidates and the up rows of those that
  // passed; what tokens of a batch share comes from the cache.
  void Run(size_t num_tokens) const;

 private:
  struct Picked;
  void PickIn(size_t begin, size_t end, size_t token_idx, Picked& picked) const;
  void RunPlaces(size_t begin, size_t end, size_t token_idx) const;
  void DropClosed(float* gate, float* hidden, Picked& picked) const;
  void MultiplyPicked(const TensorView& weight, const TensorView& bias,
                      size_t token_idx, const Picked& picked, float* out) const;
  void CollectFired(size_t token_idx) const;

  const model::FfnConfig* config_;
  const model::FfnWeights* weights_;
  std::span<const uint32_t> order_;
  size_t layer_idx_;
  const Compute* compute_;
  const Scratch* scratch_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SPARSE_HIDDEN_H_
