// How the logits of a pass are computed.
#ifndef THERMOCLINE_ENGINE_FORWARD_HEAD_EXECUTOR_H_
#define THERMOCLINE_ENGINE_FORWARD_HEAD_EXECUTOR_H_

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "compute/matmul.h"
#include "compute/rows.h"
#include "engine/batch.h"
#include "model/model.h"

namespace thermocline::engine {

// Rows of one phase, whose logits are asked for.
struct HeadCall {
  Phase phase = Phase::kPrompt;
  size_t num_rows = 0;
  compute::Rows normed;  // [T, D] behind the output norm
  compute::Rows logits;  // [T, V]
};

// Chosen when the model opens. Called by one thread; parallel inside; allocates
// nothing.
class HeadExecutor {
 public:
  virtual ~HeadExecutor() = default;
  virtual Status Run(const HeadCall& call) = 0;
  // Bytes of weights in the host's memory that Run reads.
  virtual size_t num_bytes() const = 0;
};

// The product with the head, on the host; never fails. The arguments outlive
// it.
std::unique_ptr<HeadExecutor> MakeHostHead(const model::Weights* weights,
                                           const compute::Compute* compute);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_HEAD_EXECUTOR_H_
