// What a feed-forward block saw and did, for those who gather it: profiles,
// traces, training data, measures of sparsity.
#ifndef THERMOCLINE_ENGINE_FFN_OBSERVER_H_
#define THERMOCLINE_ENGINE_FFN_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <span>

namespace thermocline::engine {

// Of one token in one layer. Views, good until the observer returns. The
// neurons of a mixture are numbered through: neuron i of expert e is e * F + i.
struct FfnObservation {
  int64_t layer_idx = 0;
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

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_OBSERVER_H_
