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

// What predictors choose and what comes of it (ffn/sparse_ffn.h); nothing when
// every neuron is computed.
struct SparseScratch {
  // The candidates of each token, in two lists if predictors speak of the next
  // layer: then layer l reads list l % 2.
  size_t num_lists = 0;
  size_t batch = 0;
  size_t num_neurons = 0;
  uint64_t* words = nullptr;  // [num_lists, B, WordsOf(F)]
  // The neurons that fired: fired[t * F ..] of token t, num_fired[t] of them.
  uint32_t* fired = nullptr;      // [B, F]
  uint32_t* num_fired = nullptr;  // [B]

  predictor::NeuronSet candidates(size_t layer_idx, size_t token_idx) const {
    const size_t row = layer_idx % num_lists * batch + token_idx;
    return {words + row * predictor::WordsOf(num_neurons), num_neurons};
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
  Rows gate;      // [B, F]; no data if dense and without a gate
  Rows up;        // [B, F]
  Rows rope_cos;  // [B, pairs]
  Rows rope_sin;  // [B, pairs]
  AttentionScratch attention;
  ExpertScratch experts;
  SparseScratch sparse;
  // The widest matrix input of B tokens as activation rows, or packed for
  // products with many tokens.
  std::byte* rounded_rows;
  std::byte* tiles;   // tile_bytes per thread, for such products
  size_t tile_bytes;  // a multiple of 64; may be 0
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
