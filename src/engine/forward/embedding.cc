#include "engine/forward/embedding.h"

#include "compute/stage_times.h"
#include "engine/kv/kv_pool.h"
#include "tensor/codec.h"

namespace thermocline::engine {

Embedding::Embedding(const model::Model* model, const compute::Compute* compute,
                     const Scratch* scratch)
    : weights_(model->weights()), compute_(*compute), scratch_(*scratch) {
  for (const model::RopeConfig& rope : model->config().ropes) {
    ropes_.emplace_back(rope, weights_.rope_freq_factors);
  }
}

void Embedding::Run(const Batch& batch) const {
  const TensorView& table = weights_.token_embedding;
  const size_t num_rows = batch.num_rows();
  const compute::ScopedStage stage(compute_, compute::Stage::kEmbed,
                                   num_rows * table.row_bytes());
  compute_.pool->ParallelFor(
      num_rows, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        size_t run_idx = 0;
        size_t first = 0;
        for (size_t row = begin; row < end; ++row) {
          while (row >= first + batch.runs[run_idx].tokens.size()) {
            first += batch.runs[run_idx++].tokens.size();
          }
          RunRow(batch.runs[run_idx], row - first, row);
        }
      });
}

void Embedding::RunRow(const BatchRun& run, size_t token_idx,
                       size_t row) const {
  const TensorView& table = weights_.token_embedding;
  DequantizeRow(table.dtype,
                table.row(static_cast<uint64_t>(run.tokens[token_idx])),
                scratch_.residual.span(row));
  const int64_t position =
      run.sequence->length() + static_cast<int64_t>(token_idx);
  for (size_t i = 0; i < ropes_.size(); ++i) {
    const RopeRows& rows = scratch_.ropes[i];
    ropes_[i].Angles(position, rows.cos.row(row), rows.sin.row(row));
  }
  const TensorView& positions = weights_.position_embedding;
  if (!positions) return;
  // A learned vector, by way of delta.
  DequantizeRow(positions.dtype, positions.row(static_cast<uint64_t>(position)),
                scratch_.delta.span(row));
  compute_.kernels->add(scratch_.delta.row(row), scratch_.delta.width,
                        scratch_.residual.row(row));
}

}  // namespace thermocline::engine
