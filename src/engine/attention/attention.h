// The attention half of a layer.
#ifndef THERMOCLINE_ENGINE_ATTENTION_ATTENTION_H_
#define THERMOCLINE_ENGINE_ATTENTION_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "engine/kv/kv_cache.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// One layer's causal self-attention with grouped heads:
//   q, k, v = Wq x + bq, Wk x + bk, Wv x + bv;  q, k rotated by their position
//   out = Wo concat_h(softmax(q_h K_g(h)^T / sqrt(K)) V_g(h)) + bo
// Owns nothing; what it points at outlives it.
class Attention {
 public:
  Attention(const model::Config* config, const model::AttentionWeights* weights,
            int64_t layer_idx, const Compute* compute, const Scratch* scratch,
            const KvCache* cache)
      : config_(config),
        weights_(weights),
        layer_idx_(layer_idx),
        compute_(compute),
        scratch_(scratch),
        cache_(cache) {}

  // From scratch.normed to scratch.delta, for `num_tokens` tokens at
  // first_position and on; writes their keys and values into the cache.
  // Requires first_position + num_tokens <= context, and the angles of these
  // positions in scratch.rope_cos and rope_sin. Allocates nothing. A few tokens
  // share the work by heads and pieces of the positions, many by tokens and
  // heads; the bits are the same. Batches whose products are those of
  // KernelTable::large_batch attend by its kernel, whose bits are others.
  void Run(int64_t first_position, size_t num_tokens) const;

 private:
  struct Tile;
  struct Part;
  class Tiling;

  void RotateAndStore(int64_t first_position, size_t num_tokens) const;
  void NormHeads(const TensorView& weight, int64_t num_heads,
                 float* heads) const;
  void Store(size_t t, int64_t position) const;
  void Attend(size_t first_position, size_t num_tokens) const;
  void AttendTiles(const Tiling& tiling) const;
  void AttendPieces(const Tiling& tiling) const;
  size_t PiecesPerCall(const Tiling& tiling) const;
  void AttendPart(const Tiling& tiling, const Part& part, const Part& next,
                  int worker_idx, float* sums, size_t sums_stride) const;
  bool IsLargeBatch(size_t num_tokens) const;
  size_t FirstPartial(const Tile& tile) const;
  void MergePieces(const Tile& tile, size_t num_partials) const;
  void Finish(const Tile& tile, const float* sums) const;

  const model::Config* config_;
  const model::AttentionWeights* weights_;
  int64_t layer_idx_;
  const Compute* compute_;
  const Scratch* scratch_;
  const KvCache* cache_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_ATTENTION_H_
