// Whom a layer's predictor names from an input, whatever the session's mode:
// what an engine would load or compute, also if it asked layers ahead.
#ifndef THERMOCLINE_ENGINE_FFN_PREDICTOR_PROBE_H_
#define THERMOCLINE_ENGINE_FFN_PREDICTOR_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "compute/carver.h"
#include "compute/matmul.h"
#include "engine/ffn/ffn_observer.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "neuron/active_sets.h"
#include "os/memory.h"
#include "os/thread_pool.h"
#include "predictor/selector.h"

namespace thermocline::engine {

// Asks the model's trained predictors, or if it has none the training-free ones
// of its file, by the products of single rows: of generated tokens in the layer
// that they were made for these are FfnMode::kFast's candidates, bit by bit.
// Source of asking ahead: DynamicInfer 4.2.1 and E.1, where the predictor of
// layer i + k reads what layer i's would; nothing is trained for that.
// Threads  one caller at a time; computes alone.
class PredictorProbe {
 public:
  // kInvalidArgument: the file brings no predictors; kUnsupported: weights of
  // theirs are not in memory; kResourceExhausted, kIo: no memory or threads.
  static Result<std::unique_ptr<PredictorProbe>> Create(
      std::shared_ptr<const model::Model> model, kernels::Isa isa);

  bool HasPredictor(size_t layer_idx) const;
  // The layer whose input the predictor of `layer_idx` was made for.
  size_t SourceOf(size_t layer_idx) const;

  // The neurons, ascending, that the predictor of `layer_idx` names from what
  // `seen.layer_idx` read (model::PredictorConfig says of which stream). Of a
  // mixture those of seen.experts. All neurons, or all of theirs, of a layer
  // without a predictor. Good until the next call.
  // kCorrupt: its scores are not finite; the file and the layer are named.
  // Cost: reads the predictor once, on this thread.
  Result<std::span<const uint32_t>> Ask(const FfnObservation& seen,
                                        size_t layer_idx);

 private:
  PredictorProbe(std::shared_ptr<const model::Model> model, bool is_free,
                 std::unique_ptr<os::ThreadPool> pool);
  void Carve(kernels::Isa isa, compute::Carver& carver);
  Status AddPart(size_t layer_idx, size_t expert_idx);
  predictor::Selector& SelectorOf(size_t layer_idx, size_t expert_idx);

  std::shared_ptr<const model::Model> model_;
  bool is_free_;  // training-free predictors
  std::unique_ptr<os::ThreadPool> pool_;
  os::AlignedBuffer buffer_;
  compute::Compute compute_;
  compute::Rows input_;  // [1, D]
  predictor::SelectorScratch scratch_;
  neuron::ActiveSets sets_;  // of a row, of the widest layer or expert
  // [L][max(E, 1)], null before they are asked.
  std::vector<std::vector<std::unique_ptr<predictor::Selector>>> selectors_;
  std::vector<uint32_t> named_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_PREDICTOR_PROBE_H_
