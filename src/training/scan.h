// What one run over the corpus tells of all layers, beside samples to train on:
// how often neurons fire, a few samples for the self-test, and how large opened
// gates are.
#ifndef THERMOCLINE_TRAINING_SCAN_H_
#define THERMOCLINE_TRAINING_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/ffn/ffn_observer.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "neuron/profile.h"
#include "pack/parts.h"
#include "tensor/op_kinds.h"
#include "training/corpus.h"

namespace thermocline::training {

// How the sizes |f(gate x)| of opened gates are spread in each layer: counts in
// bins, 1024 to each doubling.
// Source: CATS (2404.08763) thresholds them at a quantile.
class GateSizes {
 public:
  GateSizes(size_t num_layers, Activation activation,
            const kernels::KernelTable& kernels);

  void Add(size_t layer_idx, std::span<const float> gate);

  // The size that a share `density` of a layer's gates reach, to a bin's edge.
  // 0 if all do, or nothing was added.
  float ThresholdFor(size_t layer_idx, double density) const;
  std::vector<float> ThresholdsFor(double density) const;

 private:
  Activation activation_;
  const kernels::KernelTable& kernels_;
  std::vector<float> sizes_;                   // of the gates at hand
  std::vector<std::vector<uint64_t>> counts_;  // [layers][bins]
};

// Tokens of the self-test.
inline constexpr size_t kNumSelfTests = 8;

class Scan {
 public:
  // Gate sizes are gathered if `wants_gates`, of every eighth token.
  Scan(const model::Config& config, const Corpus& corpus, bool wants_gates,
       const kernels::KernelTable& kernels);

  // For every observation of a run over the corpus, in order.
  void Add(size_t chunk_idx, const engine::FfnObservation& seen);

  const neuron::Profile& profile() const { return builder_.profile(); }
  const GateSizes& gates() const { return gates_; }
  // Without candidates. Tokens of the first chunk that is held out.
  const std::vector<pack::LayerSelfTest>& self_test() const {
    return self_test_;
  }

 private:
  bool wants_gates_;
  size_t test_chunk_;
  size_t test_step_;  // positions from one test to the next
  size_t last_chunk_ = SIZE_MAX;
  neuron::ProfileBuilder builder_;
  GateSizes gates_;
  std::vector<pack::LayerSelfTest> self_test_;
};

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_SCAN_H_
