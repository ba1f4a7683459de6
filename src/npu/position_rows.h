// What a graph is told of positions: who sees whom, and the angles.
#ifndef THERMOCLINE_NPU_POSITION_ROWS_H_
#define THERMOCLINE_NPU_POSITION_ROWS_H_

#include <cstdint>
#include <optional>

#include "model/model.h"
#include "model/rope.h"
#include "npu/chunk_plan.h"

namespace thermocline::npu {

// mask [T, S + T] of a chunk whose first row is at `position`: a row sees the
// past, the rows before it and itself; padding sees itself alone, since a row
// that sees nothing has no softmax.
void FillMask(const Chunk& chunk, int64_t position, float* mask);

// Angles of the one rope of a model's layers. Immutable.
class RopeRows {
 public:
  explicit RopeRows(const model::Model& model);

  // 0: the layers do not rotate.
  size_t num_pairs() const { return table_ ? table_->num_pairs() : 0; }
  // cos, sin [T, num_pairs()]; also of the padding, as if rows went on.
  void Fill(const Chunk& chunk, int64_t position, float* cos, float* sin) const;

 private:
  std::optional<model::RopeTable> table_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_POSITION_ROWS_H_
