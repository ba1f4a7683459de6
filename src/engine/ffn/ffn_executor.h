// How one layer's feed-forward block is computed.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
#define THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_

#include <cstddef>

namespace thermocline::engine {

// One executor per layer, made when the session opens. The layer loop calls it
// and never asks which kind it is.
class FfnExecutor {
 public:
  virtual ~FfnExecutor() = default;

  // From scratch.normed [T, D] to scratch.delta [T, D]. Called by one thread;
  // parallel inside; allocates nothing.
  virtual void Run(size_t num_tokens) = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_EXECUTOR_H_
