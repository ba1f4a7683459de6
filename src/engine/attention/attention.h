// The attention half of a layer, on the host.
#ifndef THERMOCLINE_ENGINE_ATTENTION_ATTENTION_H_
#define THERMOCLINE_ENGINE_ATTENTION_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "compute/matmul.h"
#include "engine/attention/attention_executor.h"
#include "engine/attention/attention_scratch.h"
#include "engine/attention/attention_tiling.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// One layer's causal self-attention with grouped heads:
//   q, k, v = Wq x + bq, Wk x + bk, Wv x + bv;  q, k normed head by head where
//   the model has weights for it, then rotated by their position if the
//   layer has a rope
//   out = Wo concat_h(softmax(q_h K_g(h)^T / sqrt(K)) V_g(h)) + bo
// Generated rows share the work by heads and pieces of the positions, a prompt
// by rows and heads, or as well by pieces where it has a few rows; the bits are
// the same. A prompt attends by KernelTable::large_batch_attention where the
// ISA has it and multiplies the weights in batches: its bits are others.
// Owns nothing; what it points at outlives it.
class Attention final : public AttentionExecutor {
 public:
  // The layer's scratch.
  Attention(const model::Config* config, const model::AttentionWeights* weights,
            size_t layer_idx, const compute::Compute* compute,
            const AttentionScratch* scratch)
      : config_(config),
        spec_(config->layers[layer_idx].attention),
        weights_(weights),
        layer_idx_(layer_idx),
        compute_(compute),
        scratch_(scratch) {}

  // Never fails.
  Status Run(const AttentionCall& call) override;

 private:
  using Kernel = void (*)(const kernels::AttentionArgs& args);

  void RotateAndStore(const AttentionCall& call) const;
  void RotateAndStoreRow(const AttentionCall& call, const SequenceRows& rows,
                         size_t row) const;
  void NormHeads(const TensorView& weight, size_t num_heads,
                 float* heads) const;
  void AttendPrompts(const AttentionCall& call) const;
  void AttendGenerated(const AttentionCall& call) const;
  void Attend(const AttentionGroup& group, Kernel attend) const;
  void AttendTiles(const AttentionGroup& group, Kernel attend) const;
  void AttendPieces(const AttentionGroup& group, Kernel attend) const;
  size_t PiecesPerCall(const AttentionGroup& group) const;
  void AttendPart(Kernel attend, const AttentionPart& part,
                  const AttentionPart& next, int worker_idx, float* sums,
                  size_t sums_stride) const;
  bool IsLargeBatch(Phase phase) const;
  size_t FirstPartial(const AttentionGroup& group,
                      const AttentionTile& tile) const;
  void MergePieces(const AttentionGroup& group,
                   const AttentionTile& tile) const;
  void Finish(const AttentionTile& tile, const float* sums) const;

  const model::Config* config_;
  const model::AttentionSpec& spec_;
  const model::AttentionWeights* weights_;
  size_t layer_idx_;
  const compute::Compute* compute_;
  const AttentionScratch* scratch_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_ATTENTION_H_
