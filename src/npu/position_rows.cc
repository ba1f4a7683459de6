#include "npu/position_rows.h"

#include <algorithm>

#include "npu/block.h"

namespace thermocline::npu {

void FillMask(const Chunk& chunk, int64_t position, float* mask) {
  const int64_t past = chunk.past();
  for (int64_t t = 0; t < chunk.rows; ++t) {
    float* row = mask + t * chunk.context;
    float* new_columns = row + past;
    std::fill(row, row + chunk.context, kClosed);
    if (t < chunk.count) {
      std::fill(row, row + position, 0.0f);
      std::fill(new_columns, new_columns + t, 0.0f);
    }
    new_columns[t] = 0.0f;
  }
}

RopeRows::RopeRows(const model::Model& model) {
  for (const model::LayerSpec& layer : model.config().layers) {
    const int rope = layer.attention.rope;
    if (rope == model::AttentionSpec::kNoRope) continue;
    table_.emplace(model.config().ropes[static_cast<size_t>(rope)],
                   model.weights().rope_freq_factors);
    return;
  }
}

void RopeRows::Fill(const Chunk& chunk, int64_t position, float* cos,
                    float* sin) const {
  if (!table_) return;
  for (int64_t t = 0; t < chunk.rows; ++t) {
    table_->Angles(position + t, cos, sin);
    cos += num_pairs();
    sin += num_pairs();
  }
}

}  // namespace thermocline::npu
