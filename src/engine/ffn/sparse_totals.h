// What sparse feed-forward blocks read, for those who print bytes.
#ifndef THERMOCLINE_ENGINE_FFN_SPARSE_TOTALS_H_
#define THERMOCLINE_ENGINE_FFN_SPARSE_TOTALS_H_

#include <cstdint>

namespace thermocline::engine {

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
  uint64_t num_bytes = 0;  // of the FFNs' matrices and of predictors

  SparseTotals operator-(const SparseTotals& before) const {
    return {num_tokens - before.num_tokens,
            num_passes - before.num_passes,
            num_neurons - before.num_neurons,
            num_candidates - before.num_candidates,
            num_open - before.num_open,
            num_union_neurons - before.num_union_neurons,
            num_union_candidates - before.num_union_candidates,
            num_union_open - before.num_union_open,
            num_bytes - before.num_bytes};
  }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SPARSE_TOTALS_H_
