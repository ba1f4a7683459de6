#include "engine/ffn/ffn_scratch.h"

#include <algorithm>

#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/turned_down.h"
#include "kernels/kernels.h"

namespace thermocline::engine {
namespace {

using compute::Carver;

ExpertScratch CarveExperts(const model::Config& config, const FfnShape& shape,
                           Carver& carver) {
  const auto num_experts = static_cast<uint64_t>(config.ffn.num_experts);
  const auto num_used = static_cast<uint64_t>(config.ffn.num_experts_used);
  const auto width = static_cast<uint64_t>(config.width);
  const auto num_neurons = static_cast<uint64_t>(config.ffn_width);
  ExpertScratch experts;
  if (num_experts == 0) return experts;
  experts.shares = carver.TakeRows(shape.num_rows, num_experts);
  experts.weights = carver.TakeRows(shape.num_rows, num_used);
  experts.chosen = carver.Take<uint32_t>(shape.num_rows, num_used);
  experts.group_begin = carver.Take<size_t>(num_experts + 1, 1);
  experts.grouped = carver.Take<size_t>(shape.num_rows, num_used);
  experts.in = carver.TakeRows(shape.num_rows, width);
  experts.out = carver.TakeRows(shape.num_rows, width);
  if (shape.is_sparse || shape.is_recorded) {
    experts.sets = {
        num_neurons,
        carver.Take<uint64_t>(shape.num_rows,
                              neuron::ActiveSets::WordsPerRow(num_neurons)),
        shape.is_recorded};
  }
  if (shape.is_recorded) {
    experts.gates = carver.TakeRows(shape.num_rows, num_used * num_neurons);
  }
  return experts;
}

SparseScratch CarveSparse(const model::Config& config, const FfnShape& shape,
                          Carver& carver) {
  const auto num_neurons = static_cast<uint64_t>(config.ffn_width);
  SparseScratch sparse;
  sparse.num_neurons = num_neurons;
  sparse.group = std::min<uint64_t>(shape.num_rows, kernels::kListedTokens);
  sparse.all_ids = carver.Take<uint32_t>(1, num_neurons);
  sparse.ids = carver.Take<uint32_t>(sparse.group, num_neurons);
  sparse.fired = carver.Take<uint32_t>(sparse.group, num_neurons);
  sparse.sums = carver.TakeRows(PieceSums::kMaxPieces * sparse.group,
                                static_cast<uint64_t>(config.width));
  sparse.union_words = carver.Take<uint64_t>(2, neuron::WordsOf(num_neurons));
  return sparse;
}

// For down matrices that lie transposed, where prompts are multiplied in
// batches (turned_down.h).
void CarveTurned(const model::Config& config, const FfnShape& shape,
                 Carver& carver, FfnScratch& scratch) {
  const bool has_down_t =
      !config.records.empty() ||
      config.predictor.kind == model::PredictorKind::kPowerInfer;
  if (has_down_t && kernels::KernelsFor(shape.isa).batch) {
    scratch.turned_bytes = TurnedBytes(static_cast<uint64_t>(config.ffn_width));
  }
  scratch.turned = carver.TakeBytes(static_cast<uint64_t>(shape.num_threads),
                                    scratch.turned_bytes);
}

}  // namespace

// The limits of model::Config keep products of its numbers far below 2^64.
FfnScratch CarveFfn(const model::Config& config, const FfnShape& shape,
                    Carver& carver) {
  const auto num_neurons = static_cast<uint64_t>(config.ffn_width);
  FfnScratch scratch;
  if (config.ffn.gated || shape.is_sparse || shape.is_recorded) {
    scratch.gate = carver.TakeRows(shape.num_rows, num_neurons);
  }
  scratch.up = carver.TakeRows(shape.num_rows, num_neurons);
  scratch.experts = CarveExperts(config, shape, carver);
  // Records are computed neuron by neuron in every mode.
  if (shape.is_sparse || !config.records.empty()) {
    scratch.sparse = CarveSparse(config, shape, carver);
  }
  if (shape.is_sparse) {
    scratch.selector = predictor::CarveSelectors(
        shape.num_rows, static_cast<uint64_t>(config.width), shape.num_threads,
        carver);
    scratch.selector.hidden = scratch.gate;
    scratch.selector.scores = scratch.up;
  }
  CarveTurned(config, shape, carver, scratch);
  return scratch;
}

}  // namespace thermocline::engine
