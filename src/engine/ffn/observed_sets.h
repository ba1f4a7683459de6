// How executors tell which neurons a token computed (observer.h).
#ifndef THERMOCLINE_ENGINE_FFN_OBSERVED_SETS_H_
#define THERMOCLINE_ENGINE_FFN_OBSERVED_SETS_H_

#include <cstddef>
#include <span>

#include "neuron/neuron_set.h"

namespace thermocline::engine {

// Adds neuron i for every hidden[i] that is not zero (NaN is not).
inline void AddFired(const neuron::NeuronSet& set,
                     std::span<const float> hidden) {
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i] != 0.0f) set.Add(i);
  }
}

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_OBSERVED_SETS_H_
