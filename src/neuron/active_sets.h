// What the rows of a pass named and fired in one layer: the one record of it.
// Predictors write whom they name, FFNs whom they computed and who fired;
// observers, and whoever moves neurons between tiers, read.
#ifndef THERMOCLINE_NEURON_ACTIVE_SETS_H_
#define THERMOCLINE_NEURON_ACTIVE_SETS_H_

#include <cstddef>
#include <cstdint>

#include "neuron/neuron_set.h"

namespace thermocline::neuron {

// A view of memory that somebody else owns. Neurons of a mixture are numbered
// through: neuron i of expert e is e * F + i.
// Threads  rows may be written at once.
struct ActiveSets {
  size_t num_neurons = 0;
  uint64_t* words = nullptr;  // [rows, 2, WordsOf(num_neurons)]
  // Somebody reads them when the FFN has run: then `named` are those whose gate
  // (without a gate: all) was computed, and `fired` those of them with h != 0.
  // Else only `named` counts, where a predictor wrote it.
  bool is_recorded = false;

  static size_t WordsPerRow(size_t num_neurons) {
    return 2 * WordsOf(num_neurons);
  }
  explicit operator bool() const { return words != nullptr; }

  NeuronSet named(size_t row) const {
    return {words + row * WordsPerRow(num_neurons), num_neurons};
  }
  NeuronSet fired(size_t row) const {
    return {named(row).words + WordsOf(num_neurons), num_neurons};
  }
  // Those of row `row` and on.
  ActiveSets From(size_t row) const {
    if (words == nullptr) return *this;
    return {num_neurons, named(row).words, is_recorded};
  }
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_ACTIVE_SETS_H_
