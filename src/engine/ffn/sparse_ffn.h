// The feed-forward block at the neurons that a token needs.
#ifndef THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/selector.h"
#include "engine/ffn/sparse_totals.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// A layer whose candidates are more than this share of its neurons computes all
// of them: rows that follow each other come from memory faster than rows here
// and there, which eats up what the last quarter would save. Not where the
// candidates are a mask.
inline constexpr double kSparseShareMax = 0.75;

// Candidates that are chosen before a layer's FFN runs, its own or those of a
// later layer.
struct Selection {
  std::unique_ptr<Selector> selector;
  const Rows* x;
};

// All of it outlives the executor.
struct SparseFfnParts {
  const model::FfnConfig* config = nullptr;
  const model::FfnWeights* weights = nullptr;  // without experts
  float rest_below = 0.0f;                     // as NeuronFfn's
  std::span<const uint32_t> order;  // the neuron at each place; empty: in order
  size_t layer_idx = 0;
  bool has_candidates = false;  // else all neurons are
  // What the candidates leave out counts as 0, also where it would fire: so
  // PowerInfer's and KAIROX's files define what their models compute. Else they
  // are guesses of what fires, and more of them change no answer for the worse.
  bool is_mask = false;
  const Compute* compute = nullptr;
  const Scratch* scratch = nullptr;  // not made for FfnMode::kDense
  PieceBoard* board = nullptr;
  SparseTotals* totals = nullptr;
};

// NeuronFfn on the candidates of each token, or on all neurons; `selections`
// choose candidates in Select. With down alone the product with Wdown is a
// dense one. A batch is computed in groups of kernels::kListedTokens tokens.
std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           std::vector<Selection> selections);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_
