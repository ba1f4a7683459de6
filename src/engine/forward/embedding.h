// The first step of a pass: what the first layer reads.
#ifndef THERMOCLINE_ENGINE_FORWARD_EMBEDDING_H_
#define THERMOCLINE_ENGINE_FORWARD_EMBEDDING_H_

#include <cstddef>
#include <vector>

#include "compute/matmul.h"
#include "engine/batch.h"
#include "engine/scratch.h"
#include "model/model.h"
#include "model/rope.h"

namespace thermocline::engine {

class Embedding {
 public:
  // All of it outlives this.
  Embedding(const model::Model* model, const compute::Compute* compute,
            const Scratch* scratch);

  // scratch.residual of all rows, and the angles of their positions.
  void Run(const Batch& batch) const;
  // Of one token of a run, which is row `row` of the pass.
  void RunRow(const BatchRun& run, size_t token_idx, size_t row) const;

 private:
  const model::Weights& weights_;
  const compute::Compute& compute_;
  const Scratch& scratch_;
  std::vector<model::RopeTable> ropes_;  // of the configuration's
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_EMBEDDING_H_
