// What a feed-forward block saw, did and read, for those who gather or print
// it: profiles, traces, training data, measures of sparsity, bytes.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_OBSERVER_H_
#define THERMOCLINE_ENGINE_FFN_FFN_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "neuron/neuron_set.h"

namespace thermocline::engine {

// Of one token in one layer. Views, good until the observer returns. The
// neurons of a mixture are numbered through: neuron i of expert e is e * F + i.
struct FfnObservation {
  size_t layer_idx = 0;
  int64_t position = 0;
  std::span<const float> input;   // [D] what the FFN reads: normed
  std::span<const float> stream;  // [D] the stream that was normed for it
  // Ascending neurons. Candidates: whose gate was computed, or with no gate,
  // all of the neuron. Fired: those with h != 0, never more than candidates.
  std::span<const uint32_t> candidates;
  std::span<const uint32_t> fired;
  // [U] those that the token uses, in no order; empty without experts.
  std::span<const uint32_t> experts;
  // gate_i x + bias (up_i x + bias without a gate) before the activation, where
  // all neurons are computed densely; else empty. [F], or [U * F]: of one
  // expert after the other, as `experts` has them.
  std::span<const float> gate;
};

// Called by the thread that decodes, batch by batch, in each layer by layer and
// in each by position. Must not use the session.
// Null: nobody looks, and nothing is gathered.
using FfnObserver = std::function<void(const FfnObservation&)>;

// How executors tell which neurons a token computed.
// Adds neuron i for every hidden[i] that is not zero (NaN is not).
inline void AddFired(const neuron::NeuronSet& set,
                     std::span<const float> hidden) {
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i] != 0.0f) set.Add(i);
  }
}

// Of generated rows in a mode other than dense.
struct SparseTotals {
  uint64_t num_tokens = 0;
  uint64_t num_passes = 0;  // in which they were computed together
  // Of all their layers; of experts, of those they used.
  uint64_t num_neurons = 0;
  uint64_t num_candidates = 0;  // whose gate was read
  uint64_t num_open = 0;        // and the rest
  // What the rows of a pass read together, each neuron once: of the FFNs'
  // neurons, of those whose gate was read for any row, and of those that fired
  // for any. Of single rows the same as above.
  uint64_t num_union_neurons = 0;
  uint64_t num_union_candidates = 0;
  uint64_t num_union_open = 0;
  uint64_t num_bytes =
      0;  // of the FFNs' matrices and of predictors; the host's
  // Of num_candidates and num_open those that a device computed, and what it
  // read of records.
  uint64_t num_device_candidates = 0;
  uint64_t num_device_open = 0;
  uint64_t num_device_bytes = 0;

  SparseTotals operator-(const SparseTotals& before) const {
    return {num_tokens - before.num_tokens,
            num_passes - before.num_passes,
            num_neurons - before.num_neurons,
            num_candidates - before.num_candidates,
            num_open - before.num_open,
            num_union_neurons - before.num_union_neurons,
            num_union_candidates - before.num_union_candidates,
            num_union_open - before.num_union_open,
            num_bytes - before.num_bytes,
            num_device_candidates - before.num_device_candidates,
            num_device_open - before.num_device_open,
            num_device_bytes - before.num_device_bytes};
  }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_OBSERVER_H_
