// The layer loop: embed, layers, output norm, head.
#ifndef THERMOCLINE_ENGINE_FORWARD_H_
#define THERMOCLINE_ENGINE_FORWARD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/attention/attention.h"
#include "engine/ffn/activity.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/kv/kv_cache.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/model.h"
#include "model/rope.h"
#include "text/vocab.h"

namespace thermocline::engine {

// Driven by model::Config: no copy per architecture. Per layer
//   x += Attention(norm(x));  x += FFN(norm(x))
// or, in a parallel block,
//   x += Attention(norm(x)) + FFN(norm2(x))
// Owns the executors of the layers; everything it is given outlives it.
class Forward {
 public:
  // Returns false to stop. Called between layers with the number done.
  using BetweenLayers = std::function<bool(int64_t num_layers_done)>;

  // `ffn` is not kAuto and what the scratch was made for; `activity` may be
  // null.
  Forward(const model::Model* model, const Compute* compute,
          const Scratch* scratch, const KvCache* cache, FfnMode ffn,
          const ActivityFn* activity);

  // Runs one batch at first_position and on. logits: [N, V] of the last N
  // tokens, N <= tokens.size(), may be 0. The ids are in the vocabulary, and
  // the positions in the context. Allocates nothing.
  // kCorrupt: the output of a layer (named) or of the head is not finite.
  // kCancelled: between_layers said so.
  Status Run(std::span<const text::TokenId> tokens, int64_t first_position,
             const BetweenLayers& between_layers, std::span<float> logits);

 private:
  struct Layer {
    const model::LayerWeights* weights;
    Attention attention;
    std::unique_ptr<FfnExecutor> ffn;
  };

  // From one layer's residual stream to the next one's.
  void RunLayer(const Layer& layer, int64_t first_position, size_t num_tokens);
  void Embed(std::span<const text::TokenId> tokens, int64_t first_position);
  void AddPosition(const TensorView& positions, int64_t position,
                   size_t token_idx);
  // normed = norm(residual)
  void Normalize(const TensorView& weight, const TensorView& bias,
                 size_t num_tokens);
  // residual += delta
  void AddDelta(size_t num_tokens);
  bool AllFinite(const Rows& rows, size_t num_tokens);
  Status ComputeLogits(size_t num_tokens, std::span<float> logits);

  const model::Model* model_;
  const Compute* compute_;
  const Scratch* scratch_;
  model::RopeTable rope_;
  std::vector<Layer> layers_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_H_
