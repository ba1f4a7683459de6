// What sparse feed-forward blocks read, for those who print bytes.
#ifndef THERMOCLINE_ENGINE_FFN_SPARSE_TOTALS_H_
#define THERMOCLINE_ENGINE_FFN_SPARSE_TOTALS_H_

#include <cstdint>

namespace thermocline::engine {

// Of tokens that were computed one at a time in a mode other than dense.
struct SparseTotals {
  uint64_t num_tokens = 0;
  // Of all their layers; of experts, of those they used.
  uint64_t num_neurons = 0;
  uint64_t num_candidates = 0;  // whose gate was read
  uint64_t num_open = 0;        // and the rest
  uint64_t num_bytes = 0;       // of the FFNs' matrices and of predictors

  SparseTotals operator-(const SparseTotals& before) const {
    return {num_tokens - before.num_tokens, num_neurons - before.num_neurons,
            num_candidates - before.num_candidates, num_open - before.num_open,
            num_bytes - before.num_bytes};
  }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SPARSE_TOTALS_H_
