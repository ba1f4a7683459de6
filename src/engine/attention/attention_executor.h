// How one layer's attention is computed.
#ifndef THERMOCLINE_ENGINE_ATTENTION_ATTENTION_EXECUTOR_H_
#define THERMOCLINE_ENGINE_ATTENTION_ATTENTION_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "compute/rows.h"
#include "engine/batch.h"
#include "engine/kv/kv_pool.h"

namespace thermocline::engine {

// Consecutive rows of one sequence, whose pages are reserved.
struct SequenceRows {
  KvSequence* sequence = nullptr;
  int64_t first_position = 0;
  size_t first_row = 0;  // of the call's
  size_t num_rows = 0;
};

// Rows of one phase.
struct AttentionCall {
  Phase phase = Phase::kPrompt;
  size_t num_rows = 0;
  std::span<const SequenceRows> runs;  // all rows, in their order
  compute::Rows normed;                // [T, D] what it reads
  compute::Rows out;                   // [T, D] what it adds to the stream
  // [T, pairs] of the rows' positions, by the layer's rope; none without.
  compute::Rows rope_cos, rope_sin;
};

// One per layer, chosen when the model opens. Called by one thread; parallel
// inside; allocates nothing.
class AttentionExecutor {
 public:
  virtual ~AttentionExecutor() = default;

  // Writes the rows' keys and values into their sequences, then computes `out`.
  // Errors are those of whatever computes it: the host's has none.
  virtual Status Run(const AttentionCall& call) = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_ATTENTION_EXECUTOR_H_
