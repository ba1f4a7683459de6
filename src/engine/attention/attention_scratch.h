// The memory that attention computes in.
#ifndef THERMOCLINE_ENGINE_ATTENTION_ATTENTION_SCRATCH_H_
#define THERMOCLINE_ENGINE_ATTENTION_ATTENTION_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/carver.h"
#include "compute/rows.h"
#include "model/config.h"

namespace thermocline::engine {

// One layer's, of B rows, P floats to a partial sum. Views of memory that all
// layers share: nothing is kept from layer to layer.
struct AttentionScratch {
  // So many rows at most are cut into pieces of the context, whose sums are
  // merged when all are there.
  static constexpr size_t kSplitRows = 8;

  compute::Rows q;         // [B, H * K]
  compute::Rows k;         // [B, KVH * K]
  compute::Rows v;         // [B, KVH * Kv]
  compute::Rows attended;  // [B, H * Kv]
  compute::Rows work;      // [threads, ..] of the kernels
  compute::Rows sums;      // [threads, 2 * most queries of a call * P]
  compute::Rows
      partials;  // [min(B, kSplitRows) * H * pieces of the context, P]
};

// [L], all in one place.
std::vector<AttentionScratch> CarveAttention(const model::Config& config,
                                             uint64_t num_rows,
                                             uint64_t context, int num_threads,
                                             compute::Carver& carver);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_ATTENTION_SCRATCH_H_
