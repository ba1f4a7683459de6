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
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/ffn/observer.h"
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

  // ffn: of this model, with the compute and the scratch given here, which has
  // room for what `observer` is told; that may be null or empty. Batches of at
  // least dense_from tokens compute all neurons; 0: none do.
  Forward(const model::Model* model, const Compute* compute,
          const Scratch* scratch, const KvCache* cache, const FfnParts& ffn,
          size_t dense_from, const FfnObserver* observer);

  // Runs one batch at first_position and on. logits: [N, V] of the last N
  // tokens, N <= tokens.size(), may be 0. The ids are in the vocabulary, and
  // the positions in the context. Allocates nothing.
  // kCorrupt: an embedding, the output of a layer (named) or of the head is not
  // finite.
  // kCancelled: between_layers said so.
  Status Run(std::span<const text::TokenId> tokens, int64_t first_position,
             const BetweenLayers& between_layers, std::span<float> logits);

 private:
  struct Layer {
    const model::LayerWeights* weights;
    Attention attention;
    // One of them may be missing, if no batch asks for it.
    std::unique_ptr<FfnExecutor> sparse_ffn, dense_ffn;
  };

  // From one layer's residual stream to the next one's.
  void RunLayer(size_t layer_idx, int64_t first_position, size_t num_tokens);
  // Around the FFN, where somebody looks.
  void PrepareObservation(size_t num_tokens) const;
  void Report(size_t layer_idx, const FfnExecutor& ffn, int64_t first_position,
              size_t num_tokens) const;
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
  size_t dense_from_;            // tokens; SIZE_MAX: never
  const FfnObserver* observer_;  // null: nobody looks
  model::RopeTable rope_;
  std::vector<Layer> layers_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_H_
