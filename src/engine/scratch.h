// Every activation of one batch, carved out of one piece of memory.
#ifndef THERMOCLINE_ENGINE_SCRATCH_H_
#define THERMOCLINE_ENGINE_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/rows.h"
#include "kernels/isa.h"
#include "model/config.h"
#include "predictor/neuron_set.h"

namespace thermocline::engine {

struct ScratchShape {
  int64_t batch;                  // B: rows of each matrix below, >= 1
  int64_t context;                // positions that attention reads, >= 1
  int num_threads;                // >= 1
  FfnMode ffn = FfnMode::kDense;  // not kAuto
  kernels::Isa isa = kernels::Isa::kScalar;  // whose products are prepared for
  int64_t products_batch = 0;                // SessionOptions::products_batch
  bool observed = false;  // room for what an observer is told
};

// How a batch is spread over experts (ffn/expert_ffn.h); nothing without them.
// E experts, U of them used by each token.
struct ExpertScratch {
  Rows shares;                    // [B, E] softmax of the router's logits
  Rows weights;                   // [B, U] of the chosen experts
  uint32_t* chosen = nullptr;     // [B, U]
  size_t* group_begin = nullptr;  // [E + 1] in `grouped`
  size_t* grouped = nullptr;      // [B * U] choices, sorted by expert
  Rows in;                        // [B, D] the tokens of one expert
  Rows out;                       // [B, D]
};

// What is computed where not every neuron is (ffn/sparse_ffn.h); nothing when
// all are. G = min(B, kernels::kListedTokens) tokens are computed together.
struct SparseScratch {
  // The candidates of each token, in two lists if predictors speak of the next
  // layer: then layer l reads list l % 2.
  size_t num_lists = 0;
  size_t batch = 0;
  size_t num_neurons = 0;
  uint64_t* words = nullptr;    // [num_lists, B, WordsOf(F)]
  uint32_t* all_ids = nullptr;  // [F] every neuron, in order; 0, 1, ..
  uint32_t* ids = nullptr;      // [G, F] each token's candidates as a list
  uint32_t* fired = nullptr;    // [G, F] (ffn/neuron_ffn.h)
  size_t group = 0;             // G
  Rows sums;                    // [G * pieces, D] (ffn/neuron_ffn.h)
  uint64_t* signs = nullptr;    // [B, WordsOf(D)] of inputs (free predictors)
  uint32_t* differences = nullptr;  // [threads, kSignRows] of them, to rows
  static constexpr size_t kSignRows = 1024;

  predictor::NeuronSet candidates(size_t layer_idx, size_t token_idx) const {
    const size_t row = layer_idx % num_lists * batch + token_idx;
    return {words + row * predictor::WordsOf(num_neurons), num_neurons};
  }
};

// What an observer is told of a layer (ffn/observer.h); nothing without one.
// N neurons: F, or E * F of a mixture. An FFN marks in them what it does.
struct ObservedScratch {
  size_t num_neurons = 0;
  uint64_t* words = nullptr;  // [B, 2, WordsOf(N)]
  uint32_t* ids = nullptr;    // [2, N]: the two sets of one token as lists
  // [B, 2, WordsOf(F)]: likewise, of the tokens of one expert.
  uint64_t* expert_words = nullptr;
  Rows gates;   // [B, U * F] of a mixture: FfnObservation::gate
  Rows stream;  // [B, D] what was normed, where it changes before the FFN runs

  explicit operator bool() const { return words != nullptr; }
  predictor::NeuronSet candidates(size_t token_idx) const {
    return {words + 2 * token_idx * predictor::WordsOf(num_neurons),
            num_neurons};
  }
  predictor::NeuronSet fired(size_t token_idx) const {
    return {words + (2 * token_idx + 1) * predictor::WordsOf(num_neurons),
            num_neurons};
  }
};

// What attention computes with (attention/attention.h), P floats to a partial
// sum.
struct AttentionScratch {
  // Batches of at most this many tokens are cut into pieces of the context,
  // whose sums are merged when all are there.
  static constexpr size_t kSplitTokens = 8;

  Rows work;      // [threads, ..] of the kernels
  Rows sums;      // [threads, 2 * most queries of a call * P]
  Rows partials;  // [min(B, kSplitTokens) * H * pieces of the context, P]
};

// Views only; rows and arrays start at multiples of 64 bytes. The activations
// of a sub-layer are not kept for the next.
struct Scratch {
  Rows residual;  // [B, D] the stream that layers add to
  Rows normed;    // [B, D] input of a sub-layer
  Rows delta;     // [B, D] output of a sub-layer
  Rows q;         // [B, H * K]
  Rows k;         // [B, KVH * K]
  Rows v;         // [B, KVH * Kv]
  Rows attended;  // [B, H * Kv]
  // [B, F]; no data if dense and without a gate, unless observed: then it keeps
  // what the activation is applied to.
  Rows gate;
  Rows up;        // [B, F]
  Rows rope_cos;  // [B, pairs]
  Rows rope_sin;  // [B, pairs]
  AttentionScratch attention;
  ExpertScratch experts;
  SparseScratch sparse;
  ObservedScratch observed;
  // The widest matrix input of B tokens as activation rows, or packed for
  // products with many tokens.
  std::byte* rounded_rows;
  std::byte* tiles;   // tile_bytes per thread, for such products
  size_t tile_bytes;  // a multiple of 64; may be 0
  // Where ffn/turned_down.h turns a part of a down matrix: turned_bytes per
  // thread; none where the matrices are not transposed, or batches are small.
  std::byte* turned;
  size_t turned_bytes;
};

// Bytes that MakeScratch needs. kResourceExhausted: more than 64 bits hold.
Result<uint64_t> ScratchBytes(const model::Config& config,
                              const ScratchShape& shape);

// Views into `base`, ScratchBytes() bytes, 64-byte aligned. Requires that
// ScratchBytes succeeds for the same arguments.
Scratch MakeScratch(const model::Config& config, const ScratchShape& shape,
                    std::byte* base);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_SCRATCH_H_
