// How one layer's feed-forward block is computed.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
#define THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_

#include <cstddef>

#include "engine/rows.h"

namespace thermocline::engine {

// One executor per layer, made when the session opens. The layer loop calls it
// and never asks which kind it is. Called by one thread; parallel inside;
// allocates nothing.
class FfnExecutor {
 public:
  virtual ~FfnExecutor() = default;

  // Looks at the input before the FFN runs: scratch.normed [T, D] is what Run
  // will read, scratch.residual [T, D] the stream that was normed for it (in a
  // parallel block the layer's input, without the attention's output).
  // Predictors choose neurons here.
  virtual void Select(size_t /*num_tokens*/) {}

  // From scratch.normed [T, D] to scratch.delta [T, D]. With scratch.observed,
  // adds each token's neurons to its sets, which are empty before.
  virtual void Run(size_t num_tokens) = 0;

  // After Run with scratch.observed: FfnObservation::gate of its tokens, [T, F]
  // or [T, U * F]; no data if not all gates were computed.
  virtual Rows gate() const { return {}; }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
