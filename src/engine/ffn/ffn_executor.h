// How one layer's feed-forward block is computed.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
#define THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_

#include <cstddef>
#include <cstdint>

namespace thermocline::engine {

// One executor per layer, made when the session opens. The layer loop calls it
// and never asks which kind it is. Called by one thread; parallel inside;
// allocates nothing.
class FfnExecutor {
 public:
  virtual ~FfnExecutor() = default;

  // Looks at the input before the FFN runs: scratch.normed [T, D] is what Run
  // will read, scratch.residual [T, D] the stream that was normed for it (in a
  // parallel block the layer's input, without the attention's output). Token t
  // is at first_position + t. Predictors choose neurons here.
  virtual void Select(int64_t /*first_position*/, size_t /*num_tokens*/) {}

  // From scratch.normed [T, D] to scratch.delta [T, D].
  virtual void Run(size_t num_tokens) = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
