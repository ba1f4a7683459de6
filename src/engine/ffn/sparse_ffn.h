// The feed-forward block at the neurons that a trained predictor chose.
#ifndef THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_

#include <cstdint>
#include <memory>

#include "engine/ffn/activity.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/config.h"
#include "model/model.h"
#include "model/split_file.h"

namespace thermocline::engine {

// What the executors of a model's layers share; all of it outlives them.
struct SparseFfnParts {
  const model::Config* config = nullptr;      // predictor.kind is not kNone
  const model::Weights* weights = nullptr;    // predictors of rank R <= F
  const model::NeuronOrder* order = nullptr;  // null: as the matrices lie
  const ActivityFn* activity = nullptr;       // null or empty: nobody asks
  const Compute* compute = nullptr;
  const Scratch* scratch = nullptr;  // made for FfnMode::kFast
};

// delta = sum over the candidates i with h_i != 0 of h_i * column i of Wdown,
// + bdown, h as in sparse_hidden.h. Inactive neurons contribute nothing, biases
// of theirs neither.
//
// The mask is applied at every position, prefill too: a PowerInfer layer's own,
// from the stream before the norm; in KAIROX's files that which layer l - 1 has
// made for layer l from its normed input (layer 0 makes its own). A layer
// without a predictor computes all neurons.
//
// With down_t only the columns of neurons that fired are read; with down alone
// all of it.
std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           int64_t layer_idx);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_
