// The feed-forward block at the neurons that a token needs.
#ifndef THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/matmul.h"
#include "engine/ffn/device_ffn.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/ffn/neuron_ffn.h"
#include "model/config.h"
#include "model/model.h"
#include "predictor/selector.h"

namespace thermocline::engine {

// A layer whose candidates are more than this share of its neurons computes all
// of them: rows that follow each other come from memory faster than rows here
// and there, which eats up what the last quarter would save. Not where the
// candidates are a mask. A fixed share, not costs measured by each session:
// both ways round differently, and answers must not depend on the clock.
inline constexpr double kSparseShareMax = 0.75;
inline bool ComputesAll(const neuron::NeuronSet& candidates, bool is_mask) {
  return !is_mask &&
         static_cast<double>(candidates.Count()) >
             kSparseShareMax * static_cast<double>(candidates.num_neurons);
}

// Candidates that are chosen before a layer's FFN runs.
struct Selection {
  std::string title;  // of its errors: whose predictor it is
  std::unique_ptr<predictor::Selector> selector;
  bool reads_stream = false;      // FfnCall::stream, not normed
  bool is_of_next_layer = false;  // FfnCall::next_sets, not its own
};

// All of it outlives the executor.
struct SparseFfnParts {
  size_t layer_idx = 0;  // for errors
  const model::FfnSpec* config = nullptr;
  const model::FfnWeights* weights = nullptr;  // without experts
  RecordStore* records = nullptr;              // of these weights
  // The next layer's, that is told whom it will be asked for; null: nobody is.
  RecordStore* next_records = nullptr;
  float rest_below = 0.0f;  // as NeuronFfn's
  // The neuron at each place; empty: in order. Matrices stay as they lie: the
  // file stays mapped, and opening is instant.
  std::span<const uint32_t> order;
  bool has_candidates = false;  // else all neurons are
  // model::PredictorConfig's. Of guesses more change no answer for the worse.
  bool is_mask = false;
  const compute::Compute* compute = nullptr;
  const FfnScratch* scratch = nullptr;  // sparse, or of a model with records
  PieceResults* board = nullptr;
  // Neurons that a device computes meanwhile; null: the host computes all.
  DeviceFfn* device = nullptr;
};

// NeuronFfn on the candidates of each row, or on all neurons; `selections`
// choose candidates in Select, at the FFN's input. With down alone the product
// with Wdown is a dense one. Rows are computed in groups of
// kernels::kListedTokens, each a run of the store and a pass of the device,
// which go on at the same time.
std::unique_ptr<FfnExecutor> MakeSparseFfn(const SparseFfnParts& parts,
                                           std::vector<Selection> selections);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SPARSE_FFN_H_
