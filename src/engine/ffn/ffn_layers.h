// Which executors the layers of a model get.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_LAYERS_H_
#define THERMOCLINE_ENGINE_FFN_FFN_LAYERS_H_

#include <memory>
#include <vector>

#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/ffn/free_selector.h"
#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/sparse_totals.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "model/model.h"

namespace thermocline::engine {

// What the executors share; all of it outlives them.
struct FfnParts {
  const model::Model* model = nullptr;
  FfnMode mode = FfnMode::kDense;  // not kAuto
  // Of kFast: kTrained or kFree.
  PredictorChoice predictor = PredictorChoice::kTrained;
  const OwnSigns* signs = nullptr;  // kFree: those of a file that has none
  const Compute* compute = nullptr;
  const Scratch* scratch = nullptr;  // made for the mode
  PieceBoard* board = nullptr;
  SparseTotals* totals = nullptr;
};

// Of a mode other than kDense. Layer by layer:
//   kFast       candidates of the predictor; a layer without one as in kExact.
//               PowerInfer's and free ones speak of the layer that reads what
//               they read, and so do ours without lookahead; KAIROX's and ours
//               with a lookahead of 1 of the next, layer 0 having its own.
//   kExact      all neurons, tested
//   kThreshold  all neurons, tested against the layer's threshold
// Inside the experts that the router chose it is the same; their predictors
// read what they do, not an earlier layer's input.
std::vector<std::unique_ptr<FfnExecutor>> MakeSparseFfns(const FfnParts& parts);

// All neurons, in plain products (dense_ffn.h, expert_ffn.h); a few tokens of
// records neuron by neuron (sparse_ffn.h).
std::vector<std::unique_ptr<FfnExecutor>> MakeDenseFfns(const FfnParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_LAYERS_H_
