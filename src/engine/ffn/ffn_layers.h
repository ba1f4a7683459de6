// Which executor a layer of a model gets.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_LAYERS_H_
#define THERMOCLINE_ENGINE_FFN_FFN_LAYERS_H_

#include <cstddef>
#include <memory>
#include <span>

#include "compute/matmul.h"
#include "engine/batch.h"
#include "engine/device/device_model.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/record_store.h"
#include "engine/stream/expert_stream.h"
#include "engine/stream/record_stream.h"
#include "model/model.h"
#include "predictor/training_free.h"

namespace thermocline::engine {

// What the executors share; all of it outlives them.
struct FfnParts {
  const model::Model* model = nullptr;
  // Of kFast: kTrained or kTrainingFree.
  PredictorChoice predictor = PredictorChoice::kTrained;
  // kTrainingFree: those of a file that has none
  const predictor::OwnSigns* signs = nullptr;
  const compute::Compute* compute = nullptr;
  std::span<const FfnScratch> scratch;  // [L], made for the modes
  PieceResults* board = nullptr;
  const RecordStores* records = nullptr;  // of the model
  // Where records come from that stay in the file; null: they are in memory.
  RecordStream* stream = nullptr;
  ExpertStream* experts = nullptr;      // likewise
  FfnMode generated = FfnMode::kDense;  // of generated rows, in all layers
  // What a device computes of generated rows, and of rows whose neurons are
  // listed; null: nothing.
  const DeviceModel* device = nullptr;
};

// Below this a neuron's opened gate counts as at rest: NeuronFfn's rest_below.
float RestBelow(const model::Config& config, size_t layer_idx, FfnMode mode);

// Whether generated rows of kDense leave neurons to a device that has them.
// Where there are matrices the host multiplies those.
inline bool SharesNeuronsInDense(const model::FfnWeights& weights) {
  return weights.bundled || !weights.down;
}

// A layer's executor for rows of a phase.
//   kDense      all neurons: in plain products (dense_ffn.h, expert_ffn.h;
//               stream/streamed_dense.h of records that stay in the file);
//               generated rows of records neuron by neuron (sparse_ffn.h),
//               which reads them as they lie, and where a device has some
//               (SharesNeuronsInDense); or as matrices on a device
//               (device_matrices.h)
//   kFast       candidates of the predictor; a layer without one as in kExact.
//               Trained ones speak of the layer that reads what they read, or
//               with a lookahead of the next, layer 0 having its own
//               (model::PredictorConfig); free ones always of their own.
//   kExact      all neurons, tested
//   kThreshold  all neurons, tested against the layer's threshold
// Inside the experts that the router chose it is the same; their predictors
// read what they do, not an earlier layer's input.
std::unique_ptr<FfnExecutor> MakeFfn(const FfnParts& parts, size_t layer_idx,
                                     FfnMode mode, Phase phase);

// Writes what executors expect to find in their scratch. Before any runs.
void FillFfnScratch(const FfnParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_LAYERS_H_
